"""What Transformers' own common tests ask of every model, asked of every head and mask; padding; files."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from attnzoo import (
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
    SmallTransformerModel,
)
from attnzoo.loss import token_cross_entropy
from tests.transformer.tiny_transformers import (
    EVERY_PADDING,
    HEAD_IDS,
    HEADS,
    LANGUAGE_MODELS,
    VARIANTS,
    VOCAB_SIZE,
    inputs,
    labels_for,
    padded,
    tiny_config,
    tiny_model,
    words,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
AUTO_CLASSES: dict[type[PreTrainedModel], Any] = {
    SmallTransformerModel: AutoModel,
    SmallTransformerForConditionalGeneration: AutoModelForSeq2SeqLM,
    SmallTransformerForCausalLM: AutoModelForCausalLM,
    SmallTransformerForMaskedLM: AutoModelForMaskedLM,
    SmallTransformerForSequenceClassification: AutoModelForSequenceClassification,
    SmallTransformerForTokenClassification: AutoModelForTokenClassification,
}
every_head = pytest.mark.parametrize(("model_class", "variant"), HEADS, ids=HEAD_IDS)
heads_with_a_loss = pytest.mark.parametrize(
    ("model_class", "variant"), [head for head in HEADS if head[0] is not SmallTransformerModel], ids=HEAD_IDS[3:]
)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def tensors(output: Any) -> list[Tensor]:
    """Every tensor of an output, in order; the cache, which is none, aside."""
    if isinstance(output, Tensor):
        return [output]
    parts = output.to_tuple() if hasattr(output, "to_tuple") else output
    return [tensor for part in parts for tensor in tensors(part)] if isinstance(parts, tuple) else []


def batch_with_labels(model: PreTrainedModel) -> dict[str, Tensor]:
    batch = inputs(model.config)
    if isinstance(model, SmallTransformerForConditionalGeneration):
        del batch["decoder_input_ids"]
    return batch | {"labels": labels_for(model)}


def assert_same(model: PreTrainedModel, other: PreTrainedModel) -> None:
    """The same weights to the bit, and the same first output but for the order in which kernels add up."""
    weights = other.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    batch = inputs(model.config)
    torch.testing.assert_close(other(**batch)[0], model(**batch)[0], **CLOSE)


# Padding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@every_head
def test_a_row_is_computed_as_if_alone(
    model_class: type[PreTrainedModel], variant: str, attention: str, training: bool
) -> None:
    """Whatever stands beside it, under its padding, and on which side that is; without dropout in training too."""
    model = tiny_model(variant, model_class, attention=attention).train(training)
    batch = inputs(model.config)
    together = model(**batch)[0]
    for row, mask in enumerate(batch["attention_mask"].bool()[:-1]):
        single = {"input_ids": batch["input_ids"][row, mask].unsqueeze(0)}
        if model.config.is_encoder_decoder:
            single["decoder_input_ids"] = batch["decoder_input_ids"][row].unsqueeze(0)
        is_state_per_token = together.ndim == 3 and not model.config.is_encoder_decoder
        result = together[row][mask] if is_state_per_token else together[row]
        torch.testing.assert_close(result, model(**single)[0][0], **CLOSE)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@every_head
def test_rows_of_padding_only_are_finite(model_class: type[PreTrainedModel], variant: str, attention: str) -> None:
    model = tiny_model(variant, model_class, attention=attention)
    batch = inputs(model.config)
    batch["attention_mask"] = torch.zeros_like(batch["attention_mask"])
    outputs = model(**batch, output_attentions=True, output_hidden_states=True)
    assert all(tensor.isfinite().all() for tensor in tensors(outputs))
    weights = [w for name, w in outputs.items() if name in ("attentions", "encoder_attentions", "cross_attentions")]
    assert weights
    assert all((layer == 0).all() for w in weights for layer in w)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32], ids=str)
@every_head
def test_the_mask_may_be_of_any_type(model_class: type[PreTrainedModel], variant: str, dtype: torch.dtype) -> None:
    model = tiny_model(variant, model_class)
    batch = inputs(model.config)
    expected = model(**batch)[0]
    assert torch.equal(model(**(batch | {"attention_mask": batch["attention_mask"].to(dtype)}))[0], expected)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name.startswith("encoder")])
def test_a_padded_target_does_not_change_its_real_tokens(variant: str) -> None:
    """The decoder's own mask, with padding on the left of the target."""
    model = tiny_model(variant)
    source, target = words(2, 5), words(2, 4, seed=1)
    expected = model(input_ids=source, decoder_input_ids=target).logits
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]] * 2)
    longer = torch.cat([words(2, 2, seed=3), target], dim=1)
    result = model(input_ids=source, decoder_input_ids=longer, decoder_attention_mask=mask).logits
    torch.testing.assert_close(result[:, 2:], expected, **CLOSE)


def test_the_classifier_reads_the_first_or_the_last_real_token() -> None:
    for variant, read in (("bidirectional-post-learned", [0, 2, 0, 1, 0]), ("causal-pre-learned", [5, 5, 2, 4, 5])):
        model = tiny_model(variant, SmallTransformerForSequenceClassification)
        batch = padded(EVERY_PADDING[:5])
        states = model.model(**batch).last_hidden_state
        expected = model.classifier(states[torch.arange(5), torch.tensor(read)])
        torch.testing.assert_close(model(**batch).logits, expected, **CLOSE)


# Backends -------------------------------------------------------------------------------------------------------------


@every_head
def test_sdpa_is_eager(model_class: type[PreTrainedModel], variant: str) -> None:
    """Values and gradients; switched on the same model, too."""
    model = tiny_model(variant, model_class, attention="eager").train()
    batch = inputs(model.config)
    results = []
    for attention in ("eager", "sdpa"):
        model.set_attn_implementation(attention)
        assert model.config._attn_implementation == attention
        states = model(**batch)[0]
        results.append([states, *torch.autograd.grad(states.square().sum(), list(model.parameters()))])
    for eager, sdpa in zip(*results, strict=True):
        torch.testing.assert_close(sdpa, eager, rtol=1e-9, atol=1e-10)


def test_sdpa_is_the_default() -> None:
    model = SmallTransformerModel(tiny_config("causal-pre-learned"))
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(ValueError, match="does not support"):
        model.set_attn_implementation("flash_attention_2")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@every_head
def test_weights_and_states_come_when_asked_for(
    model_class: type[PreTrainedModel], variant: str, attention: str
) -> None:
    model = tiny_model(variant, model_class, attention=attention)
    config, batch = model.config, inputs(model.config)
    rows, length, width, heads = 6, 6, config.hidden_size, config.num_attention_heads
    plain = model(**batch)
    named = model(**batch, output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(named[0], plain[0], **CLOSE)
    if config.is_encoder_decoder:
        shapes = {
            "encoder_hidden_states": (rows, length, width),
            "decoder_hidden_states": (rows, 4, width),
            "encoder_attentions": (rows, heads, length, length),
            "decoder_attentions": (rows, heads, 4, 4),
            "cross_attentions": (rows, heads, 4, length),
        }
    else:
        shapes = {"hidden_states": (rows, length, width), "attentions": (rows, heads, length, length)}
    assert set(named) == set(plain) | set(shapes)
    for name, shape in shapes.items():
        assert [tuple(part.shape) for part in named[name]] == [shape] * (3 if "states" in name else 2), name
    for name in set(shapes) - {"decoder_hidden_states", "encoder_hidden_states", "hidden_states"}:
        is_source = name != "decoder_attentions"
        for weights in named[name]:
            if is_source:
                padding = (batch["attention_mask"] == 0)[:, None, None].expand_as(weights)
                assert (weights[padding] == 0).all()
            sums = weights.sum(dim=-1)
            assert (torch.isclose(sums, torch.ones_like(sums)) | (sums == 0)).all()
    by_tuple = model(**batch, output_hidden_states=True, output_attentions=True, return_dict=False)
    assert type(by_tuple) is tuple
    assert all(torch.equal(one, two) for one, two in zip(tensors(by_tuple), tensors(named), strict=True))


def test_some_of_the_states() -> None:
    model = tiny_model("bidirectional-post-learned")
    every = model(words(2, 4), output_hidden_states=True).hidden_states
    some = model(words(2, 4), output_hidden_states=[1]).hidden_states
    assert [state is None for state in some] == [True, False, True]
    assert torch.equal(some[1], every[1])


@every_head
def test_states_and_weights_retain_their_gradients(model_class: type[PreTrainedModel], variant: str) -> None:
    model = tiny_model(variant, model_class, attention="eager")
    outputs = model(**inputs(model.config), output_hidden_states=True, output_attentions=True)
    retained = [t for name, parts in outputs.items() if name.endswith(("states", "attentions")) for t in parts[:1]]
    for tensor in retained:
        tensor.retain_grad()
    outputs[0].square().sum().backward()
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in retained)


# Embeddings -----------------------------------------------------------------------------------------------------------


@every_head
def test_embeddings_instead_of_ids_give_the_same(model_class: type[PreTrainedModel], variant: str) -> None:
    model = tiny_model(variant, model_class)
    batch = inputs(model.config)
    expected = model(**batch)[0]
    batch["inputs_embeds"] = model.get_input_embeddings()(batch.pop("input_ids"))
    assert torch.equal(model(**batch)[0], expected)
    if model.config.is_encoder_decoder:
        decoder = model.get_decoder().get_input_embeddings()
        batch["decoder_inputs_embeds"] = decoder(batch.pop("decoder_input_ids"))
        assert torch.equal(model(**batch)[0], expected)


def vocabulary_matrices(model: Any) -> list[nn.Parameter]:
    base = model.base_model
    stacks = [getattr(base, name) for name in ("encoder", "decoder") if hasattr(base, name)]
    head = model.get_output_embeddings()
    return [stack.embed_tokens.weight for stack in stacks] + ([] if head is None else [head.weight])


@pytest.mark.parametrize(
    ("size", "multiple", "expected"),
    [(VOCAB_SIZE + 4, None, 17), (9, None, 9), (None, 8, 16), (VOCAB_SIZE, None, 13)],
    ids=["grow", "shrink", "pad", "keep"],
)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@every_variant
def test_resized_vocabulary(
    variant: str, tied: bool, size: int | None, multiple: int | None, expected: int, tmp_path: Path
) -> None:
    model = tiny_model(variant, dtype=torch.float32, tie_word_embeddings=tied)
    batch = {name: ids % 9 if "ids" in name else ids for name, ids in inputs(model.config).items()}
    with torch.no_grad():
        before = model(**batch).logits
    model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
    assert model.config.vocab_size == expected
    matrices = vocabulary_matrices(model)
    assert [len(matrix) for matrix in matrices] == [expected] * len(matrices)
    assert len({id(matrix) for matrix in matrices}) == (1 if tied else len(matrices))
    common = min(expected, VOCAB_SIZE)
    torch.testing.assert_close(model(**batch).logits[..., :common], before[..., :common], rtol=1e-5, atol=1e-5)
    last = torch.full((2, 4), expected - 1)
    model(input_ids=last, labels=last).loss.backward()
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.state_dict().items())


@every_variant
def test_tied_matrices_are_one_everywhere(variant: str, tmp_path: Path) -> None:
    model = tiny_model(variant, dtype=torch.float32, tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum("embed_tokens" in key or "lm_head" in key for key in saved) == 1
    for one in (model, type(model).from_pretrained(tmp_path), copy.deepcopy(model), model.to(torch.bfloat16)):
        assert len({id(matrix) for matrix in vocabulary_matrices(one)}) == 1


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@every_variant
def test_the_loss_without_logits_is_the_loss(variant: str, smoothing: float) -> None:
    results = []
    for skip_logits in (False, True):
        model = tiny_model(variant).train()
        outputs = model(**batch_with_labels(model), smoothing=smoothing, skip_logits=skip_logits)
        assert (outputs.logits is None) == skip_logits
        outputs.loss.backward()
        results.append([outputs.loss, *(parameter.grad for parameter in model.parameters())])
    for whole, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, whole, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("is_recorded", [False, True])
@every_variant
def test_nothing_is_computed_of_tokens_that_the_loss_does_not_need(variant: str, is_recorded: bool) -> None:
    model = tiny_model(variant).train()
    batch, seen = padded(EVERY_PADDING), []
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    if model.config.is_encoder_decoder:
        batch["labels"] = torch.full((6, 4), 5)
        batch["labels"][0, 1:] = batch["labels"][1] = -100
    for name, module in model.named_modules():
        if name.endswith("layers.0.feed_forward"):
            module.register_forward_hook(lambda _, args, __: seen.append(args[0].shape[:-1].numel()))
    expected = model(**batch).loss
    seen.clear()
    loss = model(**batch, skip_logits=True, output_hidden_states=is_recorded).loss
    torch.testing.assert_close(loss, expected, **CLOSE)
    real = int(batch["attention_mask"].sum())
    if model.config.is_encoder_decoder:
        assert seen == ([36, 24] if is_recorded else [real, 17])  # 1 + 0 + 4 * 4
    elif model.config.attention_pattern == "causal":
        before_a_word = 4  # padding that stands before a word, which is predicted from it as in any causal model
        assert seen == [36 if is_recorded else real + before_a_word]
    else:
        assert seen == [36 if is_recorded else real]


@every_variant
def test_the_loss_of_a_batch_without_a_label_is_zero(variant: str) -> None:
    model = tiny_model(variant).train()
    batch = batch_with_labels(model)
    batch["labels"].fill_(-100)
    for skip_logits in (False, True):
        loss = model(**batch, skip_logits=skip_logits).loss
        loss.backward()
        assert loss == 0
        assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@every_variant
def test_labels_are_predicted_where_each_head_has_them(variant: str, smoothing: float) -> None:
    """A causal model is given the text itself, and shifts it; the others' labels stand where they are predicted."""
    model = tiny_model(variant)
    batch = batch_with_labels(model)
    outputs = model(**batch, smoothing=smoothing)
    logits, labels = outputs.logits, batch["labels"]
    if model.config.attention_pattern == "causal":
        logits, labels = logits[:, :-1], labels[:, 1:]
    torch.testing.assert_close(outputs.loss, token_cross_entropy(logits, labels, None, smoothing), **CLOSE)
    half = model(**batch, smoothing=smoothing, num_items_in_batch=2 * (labels != -100).sum()).loss
    torch.testing.assert_close(half, outputs.loss / 2, **CLOSE)


def test_the_decoder_reads_the_labels_one_later() -> None:
    model = tiny_model("encoder_decoder-post-sinusoidal")
    source, labels = words(3, 5), words(3, 4, seed=1)
    labels[0, 2:] = -100
    shifted = torch.cat([torch.full((3, 1), 1), labels[:, :-1]], dim=1)
    expected = model(input_ids=source, decoder_input_ids=shifted.masked_fill(shifted == -100, 0)).logits
    outputs = model(input_ids=source, labels=labels)
    assert torch.equal(outputs.logits, expected)
    assert outputs.past_key_values is None


@pytest.mark.parametrize(
    ("labels", "problem", "loss"),
    [
        (torch.tensor([0, 2, 1]), None, lambda logits, y: nn.functional.cross_entropy(logits, y)),
        (torch.eye(3), None, lambda logits, y: nn.functional.binary_cross_entropy_with_logits(logits, y.double())),
        (torch.eye(3), "regression", lambda logits, y: (logits - y).square().mean()),
        (torch.tensor([0.5, 2.0, 1.0]), None, lambda logits, y: (logits[:, 0] - y).square().mean()),
    ],
    ids=["one class", "several classes", "several numbers", "a number"],
)
def test_every_problem_of_classification(labels: Tensor, problem: Any, loss: Callable) -> None:
    num_labels = 1 if labels.ndim == 1 and labels.is_floating_point() else 3
    model = tiny_model(
        "causal-pre-learned", SmallTransformerForSequenceClassification, num_labels=num_labels, problem_type=problem
    )
    outputs = model(words(3, 5), labels=labels)
    torch.testing.assert_close(outputs.loss, loss(outputs.logits, labels))
    twice = model(words(3, 5), labels=labels, num_items_in_batch=2 * labels.numel()).loss
    torch.testing.assert_close(twice, outputs.loss / 2)
    if labels.is_floating_point():
        with pytest.raises(ValueError, match=r"smoothing=0.3 is for single labels, not for problem_type="):
            model(words(3, 5), labels=labels, smoothing=0.3)
    else:
        smooth = model(words(3, 5), labels=labels, smoothing=0.3).loss
        expected = nn.functional.cross_entropy(outputs.logits, labels, label_smoothing=0.3)
        torch.testing.assert_close(smooth, expected)


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@heads_with_a_loss
def test_dropout_leaves_everything_finite_and_every_parameter_a_gradient(
    model_class: type[PreTrainedModel], variant: str, attention: str
) -> None:
    overrides = {"dropout": 0.3, "attention_dropout": 0.3, "position_embedding": "learned"}
    model = tiny_model(variant, model_class, attention=attention, **overrides)
    batch = batch_with_labels(model)
    assert torch.equal(model(**batch).loss, model(**batch).loss)
    model.train()
    assert not torch.equal(model(**batch).loss, model(**batch).loss)
    loss = model(**batch).loss
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # A bias of all keys moves every score of a row alike, which the softmax does not see.
        assert parameter.grad.any() or name.endswith("key_proj.bias"), name


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_stands_on_the_embeddings_and_on_every_sublayers_output(norm: str, monkeypatch: Any) -> None:
    """A dropout that doubles instead acts like weights that are doubled where the dropped values are made."""
    expected = tiny_model("encoder_decoder-post-sinusoidal", norm=norm, position_embedding="learned")
    with torch.no_grad():
        for name, parameter in expected.named_parameters():
            if "embed_tokens" in name or "position_embedding" in name or ".output_proj." in name:
                parameter *= 2
        expected.lm_head.weight = nn.Parameter(expected.lm_head.weight / 2)  # it was the embeddings' own
    batch = inputs(expected.config)
    result = expected(**batch).logits

    def double(values: Tensor, rate: float) -> Tensor:
        return 2 * values

    monkeypatch.setattr(torch.nn.functional, "dropout", double)
    model = tiny_model("encoder_decoder-post-sinusoidal", norm=norm, position_embedding="learned", dropout=0.5).train()
    torch.testing.assert_close(model(**batch).logits, result, **CLOSE)


@heads_with_a_loss
def test_checkpointed_activations_change_nothing(model_class: type[PreTrainedModel], variant: str) -> None:
    results = []
    for is_checkpointed in (False, True):
        model = tiny_model(variant, model_class).train()
        if is_checkpointed:
            model.activation_checkpointing_enable()
            assert model.is_activation_checkpointing
        loss = model(**batch_with_labels(model)).loss
        loss.backward()
        results.append([loss, *(parameter.grad for parameter in model.parameters())])
    for plain, checkpointed in zip(*results, strict=True):
        torch.testing.assert_close(checkpointed, plain, rtol=0, atol=0)


@heads_with_a_loss
def test_eight_examples_are_learned_by_heart(model_class: type[PreTrainedModel], variant: str) -> None:
    torch.manual_seed(0)
    config = tiny_config(variant, hidden_size=32, intermediate_size=64, num_labels=2)
    model = model_class(config).train()
    batch = {"input_ids": words(8, 6)}
    batch["labels"] = labels_for(model, rows=8)
    if isinstance(model, SmallTransformerForCausalLM):
        batch["input_ids"] = torch.cat([torch.arange(3, 11).unsqueeze(1), words(8, 5)], dim=1)
        batch["labels"] = batch["input_ids"]
    if isinstance(model, SmallTransformerForMaskedLM) and config.position_embedding == "none":
        batch["input_ids"] = torch.stack([torch.randperm(10)[:6] + 3 for _ in range(8)])  # places told by words alone
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(300):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.1


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16], ids=["float16", "bfloat16"])
@heads_with_a_loss
def test_half_precision(model_class: type[PreTrainedModel], variant: str, convert: Callable) -> None:
    exact = tiny_model(variant, model_class, std=0.3, dtype=torch.float32)
    batch = batch_with_labels(exact)
    model = convert(copy.deepcopy(exact))
    outputs = model(**batch)
    assert outputs.logits.dtype == model.dtype
    assert outputs.loss.dtype == torch.float32
    torch.testing.assert_close(outputs.logits.float(), exact(**batch).logits, rtol=0.1, atol=0.1)
    outputs.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# The start ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def uninitialised_memory_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@every_head
def test_weights_that_a_checkpoint_lacks_are_initialised(
    model_class: type[PreTrainedModel], variant: str, tmp_path: Path
) -> None:
    model = tiny_model(variant, model_class, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    names = sorted(saved)
    for missing in (names[::2], names[1::2], names):
        kept = {key: tensor for key, tensor in saved.items() if key not in missing}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        loaded, info = model_class.from_pretrained(tmp_path, output_loading_info=True)
        assert set(info["missing_keys"]) - set(loaded.all_tied_weights_keys) == set(missing)
        for key, tensor in loaded.state_dict().items():
            assert tensor.isfinite().all(), key
            if key in saved:
                assert torch.equal(tensor, saved[key]) == (key not in missing), key


def test_a_new_model_starts_as_the_released_code() -> None:
    torch.manual_seed(0)
    config = SmallTransformerConfig(vocab_size=1000, hidden_size=64, intermediate_size=128, num_attention_heads=4)
    model = SmallTransformerForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (weight == 1).all()
        elif name.endswith("bias"):
            assert (weight == 0).all()
        elif "embed_tokens" in name:
            assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
        else:  # Glorot and Bengio, 2010, eq. 16
            bound = (6 / sum(weight.shape)) ** 0.5
            assert weight.abs().max() <= bound
            assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    logits = model(words(4, 8), decoder_input_ids=words(4, 8)).logits
    assert 0.5 < logits.std() < 2


@every_head
def test_models_are_built_without_memory(model_class: type[PreTrainedModel], variant: str) -> None:
    with torch.device("meta"):
        model = model_class(tiny_config(variant))
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert list(model.buffers()) == []  # a buffer would have to be made again after loading


# Files ----------------------------------------------------------------------------------------------------------------


@every_head
def test_a_saved_model_loads_as_it_was(model_class: type[PreTrainedModel], variant: str, tmp_path: Path) -> None:
    model = tiny_model(variant, model_class)
    model.save_pretrained(tmp_path)
    for loader in (model_class, AUTO_CLASSES[model_class]):
        loaded, info = loader.from_pretrained(tmp_path, output_loading_info=True)
        assert type(loaded) is model_class
        assert not any(info.values())
        assert_same(model, loaded)
    assert type(AutoConfig.from_pretrained(tmp_path)) is SmallTransformerConfig


@heads_with_a_loss
def test_head_and_base_load_each_others_weights(
    model_class: type[PreTrainedModel], variant: str, tmp_path: Path
) -> None:
    head = tiny_model(variant, model_class)
    head.save_pretrained(tmp_path / "head")
    base = SmallTransformerModel.from_pretrained(tmp_path / "head")
    assert_same(head.model, base)
    base.save_pretrained(tmp_path / "base")
    again, info = model_class.from_pretrained(tmp_path / "base", output_loading_info=True)
    own = {name for name, _ in head.named_parameters() if not name.startswith("model.")}
    assert set(info["missing_keys"]) == own
    assert_same(head.model, again.model)


@pytest.mark.parametrize("options", [{"device_map": "cpu"}, {"device_map": "auto", "max_memory": {"cpu": "1GiB"}}])
@every_head
def test_every_way_to_place_the_weights(
    model_class: type[PreTrainedModel], variant: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model = tiny_model(variant, model_class)
    model.save_pretrained(tmp_path)
    assert_same(model, model_class.from_pretrained(tmp_path, **options))


# The config -----------------------------------------------------------------------------------------------------------


@every_variant
def test_config_round_trip(variant: str, tmp_path: Path) -> None:
    config = tiny_config(variant, dropout=0.25, eos_token_id=[2, 5])
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["attention_pattern"] == config.attention_pattern
    for loaded in (AutoConfig.from_pretrained(tmp_path), SmallTransformerConfig.from_dict(config.to_dict())):
        assert type(loaded) is SmallTransformerConfig
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}
        assert loaded.is_encoder_decoder == (config.attention_pattern == "encoder_decoder")


def test_import_registers_with_every_auto_class_that_fits() -> None:
    for pattern, model_class in LANGUAGE_MODELS.items():
        config = AutoConfig.for_model("small_transformer", attention_pattern=pattern, **tiny_config_sizes())
        assert type(AUTO_CLASSES[model_class].from_config(config)) is model_class
        assert type(AutoModel.from_config(config)) is SmallTransformerModel
        if pattern != "encoder_decoder":
            classifier = AutoModelForSequenceClassification.from_config(config)
            assert type(classifier) is SmallTransformerForSequenceClassification
            tagger = AutoModelForTokenClassification.from_config(config)
            assert type(tagger) is SmallTransformerForTokenClassification


def tiny_config_sizes() -> dict[str, int]:
    return {
        "vocab_size": 13,
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 8,
    }
