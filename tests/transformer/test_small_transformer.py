"""The Transformer's equations, compared with the reference's loops, torch's modules, and other models."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

from attnzoo import (
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerModel,
)
from attnzoo.transformer_layers import MultiHeadAttention, TransformerLayer, sinusoidal_positions
from tests.factory import SEQ2SEQ, TRANSFORMER_VARIANTS, inputs, tiny_config, tiny_model, words
from tests.reference import small_transformer as reference
from tests.reference.attentional_rnn import weights_of

EXACT = {"rtol": 1e-10, "atol": 1e-12}
both_backends = pytest.mark.parametrize("attention", ["eager", "sdpa"])


# The loops ------------------------------------------------------------------------------------------------------------


def by_loops(model: SmallTransformerModel, batch: dict[str, Tensor]) -> list[Tensor]:
    """The last hidden states of the real tokens of every row."""
    weights = weights_of(model)
    states = []
    for row, (ids, mask) in enumerate(zip(batch["input_ids"], batch["attention_mask"], strict=True)):
        target = batch["decoder_input_ids"][row].tolist() if "decoder_input_ids" in batch else None
        states += reference.transformer(model.config, weights, ids[mask.bool()].tolist(), target)
    return states


def by_model(model: SmallTransformerModel, batch: dict[str, Tensor]) -> Tensor:
    states = model(**batch).last_hidden_state
    return states.flatten(0, 1) if "decoder_input_ids" in batch else states[batch["attention_mask"].bool()]


@both_backends
@pytest.mark.parametrize("variant", TRANSFORMER_VARIANTS)
def test_values_and_gradients_are_those_of_the_loops(variant: str, attention: str) -> None:
    """With padding on either side and in between, and a source of padding only."""
    model = tiny_model(variant, SmallTransformerModel, attention=attention).train()
    batch = inputs(model.config)
    states = by_model(model, batch)
    expected = torch.stack(by_loops(model, batch))
    torch.testing.assert_close(states, expected, **EXACT)
    readout = torch.randn(states.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad((states * readout).sum(), list(parameters.values()))
    expected_gradients = torch.autograd.grad((expected * readout).sum(), list(parameters.values()))
    for name, gradient, other in zip(parameters, gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.parametrize("variant", [name for name in SEQ2SEQ if "copy" in name])
def test_copying_is_that_of_the_loops(variant: str) -> None:
    """Log-probabilities and gradients are equal, with every kind of padding."""
    model = tiny_model(variant).train()
    batch = inputs(model.config)
    logits, weights = model(**batch).logits, weights_of(model)
    rows = zip(batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"].tolist(), strict=True)
    expected = torch.stack(
        [
            torch.stack(reference.copying_logits(model.config, weights, ids[mask.bool()].tolist(), target))
            for ids, mask, target in rows
        ]
    )
    torch.testing.assert_close(logits, expected, **EXACT)
    readout = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parameters = dict(model.named_parameters())
    gradients, others = (
        torch.autograd.grad((values * readout).sum(), list(parameters.values())) for values in (logits, expected)
    )
    for name, gradient, other in zip(parameters, gradients, others, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-10, msg=name)


def test_an_angle_of_each_position_and_pair() -> None:
    encoding = sinusoidal_positions(torch.arange(700), 6, torch.float64)
    expected = torch.stack([reference.position_encoding(position, 6) for position in range(700)])
    torch.testing.assert_close(encoding, expected, **EXACT)
    assert encoding[0].tolist() == [0, 1, 0, 1, 0, 1]


# Heads ----------------------------------------------------------------------------------------------------------------


def multi_head(**overrides: Any) -> MultiHeadAttention:
    torch.manual_seed(0)
    config = tiny_config("bidirectional-post-learned", **overrides)
    config._attn_implementation = "eager"
    return MultiHeadAttention(config, 0).double()


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_h_heads_are_h_single_heads(num_heads: int) -> None:
    """The sum of single heads, each with its rows of the query, key and value matrices and its columns of the output
    matrix.
    """
    together = multi_head(num_attention_heads=num_heads)
    size = together.head_size
    x, y = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    expected = together.output_proj.bias.expand(2, 3, 8)
    for head in range(num_heads):
        rows = slice(head * size, (head + 1) * size)

        def project(projection: nn.Linear, of: Tensor, rows: slice = rows) -> Tensor:
            return of @ projection.weight[rows].T + projection.bias[rows]

        query, key = project(together.query_proj, x), project(together.key_proj, y)
        value = project(together.value_proj, y)
        weights = (query @ key.mT / size**0.5).softmax(dim=-1)
        expected = expected + weights @ value @ together.output_proj.weight[:, rows].T
    torch.testing.assert_close(together(x, source=y)[0], expected, **EXACT)


def test_self_attention_is_attention_to_a_source_that_is_the_text_itself() -> None:
    module, x = multi_head(), torch.randn(2, 5, 8).double()
    torch.testing.assert_close(module(x)[0], module(x, source=x)[0], rtol=0, atol=0)


def test_the_scale_is_one_over_the_root_of_the_heads_width() -> None:
    assert multi_head(hidden_size=64, num_attention_heads=4).scaling == 1 / 4
    assert multi_head(hidden_size=64, num_attention_heads=4, scale_scores=False).scaling == 1


# Masks ----------------------------------------------------------------------------------------------------------------


def test_a_bidirectional_stack_sees_the_future() -> None:
    model, text = tiny_model("bidirectional-post-learned"), words(3, 6)
    changed = text.clone()
    changed[:, -1] = (text[:, -1] - 2) % 10 + 3
    assert ((model(changed).logits - model(text).logits)[:, 0].abs().amax(dim=-1) > 1e-3).all()


@pytest.mark.parametrize("position_embedding", ["none", "sinusoidal", "learned"])
def test_without_positions_the_encoder_is_permutation_equivariant(position_embedding: str) -> None:
    model = tiny_model("bidirectional-pre-none", position_embedding=position_embedding)
    text, order = words(3, 6), torch.tensor([3, 0, 5, 1, 4, 2])
    permuted, states = model(text[:, order]).logits, model(text).logits[:, order]
    if position_embedding == "none":
        torch.testing.assert_close(permuted, states, **EXACT)
    else:
        assert (permuted - states).abs().amax(dim=-1).min() > 1e-3


@pytest.mark.parametrize("pattern", ["bidirectional", "causal"])
def test_the_same_weights_under_two_masks(pattern: str) -> None:
    """An encoder and a decoder without a source differ only in the mask, so the last token, which attends to all, is
    equal.
    """
    model = tiny_model("bidirectional-post-learned", SmallTransformerModel)
    other = SmallTransformerModel(tiny_config("bidirectional-post-learned", attention_pattern="causal")).double().eval()
    other.decoder.load_state_dict(model.encoder.state_dict())
    text = words(3, 5)
    one, two = (m(text, output_hidden_states=True).hidden_states[1] for m in (model, other))
    torch.testing.assert_close(one[:, -1], two[:, -1], **EXACT)
    assert (one[:, 0] - two[:, 0]).abs().amax(dim=-1).min() > 1e-3


# Other implementations ------------------------------------------------------------------------------------------------

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
WIDE: dict[str, Any] = {"vocab_size": 40, "attention_bias": True, "dropout": 0.0} | SIZES
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 2 + [0] * 5])  # no row of padding only: others have NaN there


def randomise(module: nn.Module) -> None:
    """Every parameter, so that neither a bias of 0 nor a gain of 1 hides anything."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3, generator=generator)


def copy(target: Any, weight: Tensor, bias: Tensor) -> None:
    with torch.no_grad():
        target.weight.copy_(weight)
        target.bias.copy_(bias)


def copy_modules(*pairs: tuple[Any, Any]) -> None:
    """The weight and bias of the second into the first of each pair."""
    for target, source in pairs:
        copy(target, source.weight, source.bias)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_torchs_transformer(norm: Any, activation: Any) -> None:
    config = SmallTransformerConfig(norm=norm, activation=activation, position_embedding="none", **WIDE)
    model = SmallTransformerModel(config).eval()
    randomise(model)
    theirs = nn.Transformer(
        d_model=32,
        nhead=4,
        num_encoder_layers=3,
        num_decoder_layers=3,
        dim_feedforward=48,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        norm_first=norm == "pre",
    ).eval()
    for stack, other in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        for layer, their in zip(stack.layers, other.layers, strict=True):
            assert isinstance(layer, TransformerLayer)
            into_torch(layer, their)
        if norm == "pre":
            copy_modules((other.norm, stack.final_norm))
        else:
            other.norm = None  # it has one after the last layer's own
    source, target = words(3, 7, vocab_size=40), words(3, 5, seed=1, vocab_size=40)
    embedded = [stack.embed_tokens(ids) * 32**0.5 for stack, ids in ((model.encoder, source), (model.decoder, target))]
    padding = MASK == 0
    expected = theirs(
        *embedded,
        tgt_mask=torch.ones(5, 5).triu(1).bool(),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    result = model(source, MASK, target)
    torch.testing.assert_close(result.last_hidden_state, expected)
    memory = theirs.encoder(embedded[0], src_key_padding_mask=padding)
    real = MASK.bool()
    torch.testing.assert_close(result.encoder_last_hidden_state[real], memory[real])


def into_torch(ours: TransformerLayer, theirs: Any) -> None:
    """Our weights into a layer of torch's."""
    attentions = [(theirs.self_attn, ours.self_attention)]
    norms = [(theirs.norm1, ours.self_attention_norm), (theirs.norm2, ours.feed_forward_norm)]
    if ours.cross_attention is not None:
        attentions.append((theirs.multihead_attn, ours.cross_attention))
        norms = [norms[0], (theirs.norm2, ours.cross_attention_norm), (theirs.norm3, ours.feed_forward_norm)]
    for their, our in attentions:
        projections = (our.query_proj, our.key_proj, our.value_proj)
        with torch.no_grad():
            their.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
            their.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        copy_modules((their.out_proj, our.output_proj))
    feed_forward = ours.feed_forward
    copy_modules(*norms, (theirs.linear1, feed_forward.intermediate_proj), (theirs.linear2, feed_forward.output_proj))


def test_bert() -> None:
    """The stacks are equal; BERT's own processing of the embeddings is done before, and given as embeddings."""
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    # "eager" is its only backend with weights
    theirs = BertModel(BertConfig(vocab_size=40, attn_implementation="eager", **SIZES, **no_dropout)).eval()
    randomise(theirs)
    config = SmallTransformerConfig(
        attention_pattern="bidirectional", activation="gelu", position_embedding="none", layer_norm_eps=1e-12, **WIDE
    )
    ours = SmallTransformerModel(config).eval()
    for our, their in zip(ours.encoder.layers, theirs.encoder.layer, strict=True):
        copy_modules(
            (our.self_attention.query_proj, their.attention.self.query),
            (our.self_attention.key_proj, their.attention.self.key),
            (our.self_attention.value_proj, their.attention.self.value),
            (our.self_attention.output_proj, their.attention.output.dense),
            (our.self_attention_norm, their.attention.output.LayerNorm),
            (our.feed_forward.intermediate_proj, their.intermediate.dense),
            (our.feed_forward.output_proj, their.output.dense),
            (our.feed_forward_norm, their.output.LayerNorm),
        )
    text = words(3, 7, vocab_size=40)
    embedded = theirs.embeddings(text) / 32**0.5
    result = ours(inputs_embeds=embedded, attention_mask=MASK, output_hidden_states=True, output_attentions=True)
    expected = theirs(text, attention_mask=MASK, output_hidden_states=True, output_attentions=True)
    real = MASK.bool()
    for our, their in zip(result.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(our[real], their[real])
    for our, their in zip(result.attentions, expected.attentions, strict=True):
        torch.testing.assert_close(our.transpose(1, 2)[real], their.transpose(1, 2)[real])


def test_gpt2() -> None:
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48, "n_positions": 16, "vocab_size": 40}
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    theirs = GPT2LMHeadModel(GPT2Config(activation_function="gelu", **sizes, **no_dropout, **tokens)).eval()
    randomise(theirs)
    config = SmallTransformerConfig(
        attention_pattern="causal",
        norm="pre",
        activation="gelu",
        position_embedding="learned",
        max_position_embeddings=16,
        layer_norm_eps=1e-5,
        tie_word_embeddings=False,  # it does not scale its embeddings, and so they differ from the output projection
        **WIDE,
    )
    ours = SmallTransformerForCausalLM(config).eval()
    stack, other = ours.model.decoder, theirs.transformer
    with torch.no_grad():
        stack.embed_tokens.weight.copy_(other.wte.weight / 32**0.5)
        stack.position_embedding.learned.weight.copy_(other.wpe.weight)
        ours.lm_head.weight.copy_(theirs.lm_head.weight)
    copy_modules((stack.final_norm, other.ln_f))
    for our, their in zip(stack.layers, other.h, strict=True):
        attention = our.self_attention
        projections = (attention.query_proj, attention.key_proj, attention.value_proj)
        parts = zip(their.attn.c_attn.weight.T.chunk(3), their.attn.c_attn.bias.chunk(3), strict=True)
        for projection, (weight, bias) in zip(projections, parts, strict=True):
            copy(projection, weight, bias)
        copy(attention.output_proj, their.attn.c_proj.weight.T, their.attn.c_proj.bias)
        copy(our.feed_forward.intermediate_proj, their.mlp.c_fc.weight.T, their.mlp.c_fc.bias)
        copy(our.feed_forward.output_proj, their.mlp.c_proj.weight.T, their.mlp.c_proj.bias)
        copy_modules((our.self_attention_norm, their.ln_1), (our.feed_forward_norm, their.ln_2))
    text = words(3, 7, vocab_size=40)
    torch.testing.assert_close(
        ours(text, MASK).logits[MASK.bool()], theirs(text, attention_mask=MASK).logits[MASK.bool()]
    )
    torch.testing.assert_close(ours(text, labels=text).loss, theirs(text, labels=text).loss)
    for options in ({}, {"num_beams": 3}):
        batch = {"input_ids": text, "attention_mask": MASK.flip(1), "max_new_tokens": 5}
        assert torch.equal(ours.generate(**batch, **options), theirs.generate(**batch, **options))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_marian(activation: Any) -> None:
    """Marian is the paper's model with three-way tied embeddings; its sinusoids are in another order."""
    sizes = {"layers": 3, "attention_heads": 4, "ffn_dim": 48}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    others = {"vocab_size": 40, "d_model": 32, "max_position_embeddings": 16, "activation_function": activation}
    theirs = MarianMTModel(
        MarianConfig(**sides, **tokens, **others, scale_embedding=True, dropout=0.0, forced_eos_token_id=None)
    ).eval()
    randomise(theirs)
    config = SmallTransformerConfig(
        activation=activation, position_embedding="learned", max_position_embeddings=16, layer_norm_eps=1e-5, **WIDE
    )
    ours = SmallTransformerForConditionalGeneration(config).eval()
    with torch.no_grad():
        ours.lm_head.weight.copy_(theirs.lm_head.weight)
    for stack, other in ((ours.model.encoder, theirs.model.encoder), (ours.model.decoder, theirs.model.decoder)):
        with torch.no_grad():
            stack.position_embedding.learned.weight.copy_(other.embed_positions.weight)
        for our, their in zip(stack.layers, other.layers, strict=True):
            attentions = [(our.self_attention, their.self_attn)]
            norms = [
                (our.self_attention_norm, their.self_attn_layer_norm),
                (our.feed_forward_norm, their.final_layer_norm),
            ]
            if our.cross_attention is not None:
                attentions.append((our.cross_attention, their.encoder_attn))
                norms.append((our.cross_attention_norm, their.encoder_attn_layer_norm))
            for to, of in attentions:
                copy_modules(
                    (to.query_proj, of.q_proj),
                    (to.key_proj, of.k_proj),
                    (to.value_proj, of.v_proj),
                    (to.output_proj, of.out_proj),
                )
            copy_modules(
                *norms, (our.feed_forward.intermediate_proj, their.fc1), (our.feed_forward.output_proj, their.fc2)
            )
    source, labels = words(3, 7, vocab_size=40), words(3, 5, seed=1, vocab_size=40)
    labels[0, 3:] = -100
    batch = {"input_ids": source, "attention_mask": MASK, "labels": labels}
    result, expected = ours(**batch), theirs(**batch)
    torch.testing.assert_close(result.loss, expected.loss)
    torch.testing.assert_close(result.logits, expected.logits)
    for options in ({}, {"num_beams": 3}):
        batch = {"input_ids": source, "attention_mask": MASK, "max_new_tokens": 8}
        assert torch.equal(ours.generate(**batch, **options), theirs.generate(**batch, **options))
