"""The outputs of every model: names, shapes, gradients, losses; in float64, half precision, training."""

import inspect
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo.loss import token_cross_entropy
from tests import factory
from tests.factory import (
    BACKENDS,
    BOS,
    COPYING_HEADS,
    HEADS,
    KINDS,
    MODELS,
    RNN_VARIANTS,
    SEQ2SEQ_HEADS,
    TRANSFORMER_HEADS,
    VOCAB_SIZE,
    batch_for,
    every_head,
    every_kind,
    every_model,
    inputs,
    labelled,
    make_model,
    tensors,
    tied,
    tiny_config,
    tiny_model,
    words,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def compute(model: Any) -> Tensor:
    with torch.no_grad():
        return model(**inputs(model.config))[0]


def expected_shapes(config: Any, rows: int, length: int, target: int) -> dict[str, list[tuple[int, ...]]]:
    """The states and weights that a call returns on request."""
    copy_shapes = {}
    if getattr(config, "copy", False):
        copy_shapes = {"copy_attentions": [(rows, 1, target, length)]}
    if config.model_type == "small_transformer":
        own = config.decoder_mixer == "attention"
        layers, depth, heads = config.num_hidden_layers, config.decoder_depth, config.num_attention_heads

        def states(count: int, layers: int = layers) -> list[tuple[int, ...]]:
            return [(rows, count, config.hidden_size)] * (layers + 1)

        if not config.is_encoder_decoder:
            return {"hidden_states": states(length), "attentions": [(rows, heads, length, length)] * layers}
        return {
            "encoder_hidden_states": states(length),
            "decoder_hidden_states": states(target, depth),
            "encoder_attentions": [(rows, heads, length, length)] * layers,
            **({"decoder_attentions": [(rows, heads, target, target)] * depth} if own else {}),
            "cross_attentions": [(rows, heads, target, length)] * depth,
        } | copy_shapes
    if config.model_type == "self_attentive":
        widths = [config.embedding_size] + [2 * config.hidden_size] * config.num_hidden_layers
        return {
            "hidden_states": [(rows, length, width) for width in widths],
            "attentions": [(rows, 1, config.num_hops, length)],
        }
    encoder_size = (2 if config.bidirectional else 1) * config.encoder_hidden_size
    encoder = [config.embedding_size] + [encoder_size] * config.encoder_layers
    decoder = [config.embedding_size] + [config.decoder_hidden_size] * config.decoder_layers + [config.readout_size]
    shapes = {
        "encoder_hidden_states": [(rows, length, width) for width in encoder],
        "decoder_hidden_states": [(rows, target, width) for width in decoder],
    }
    return (
        shapes if config.score == "none" else shapes | {"cross_attentions": [(rows, 1, target, length)]} | copy_shapes
    )


# Names and shapes -----------------------------------------------------------------------------------------------------


@every_model
def test_forward_begins_with_the_usual_arguments(name: str) -> None:
    model = tiny_model(name)
    arguments = list(inspect.signature(model.forward).parameters)
    usual = ["input_ids", "attention_mask"]
    if model.config.model_type == "attentional_rnn":
        usual += ["decoder_input_ids", "decoder_attention_mask", "encoder_outputs"]
    if model.config.model_type == "self_attentive":
        usual += ["token_type_ids"]
    assert arguments[: len(usual)] == usual
    assert ("labels" in arguments) == (name in HEADS)
    assert model.main_input_name == "input_ids"


@pytest.mark.parametrize(("name", "attention"), BACKENDS)
def test_states_and_weights_come_on_request(name: str, attention: str | None) -> None:
    """By argument and by the config, by name and in the order of a tuple; finite for a row of padding, too."""
    model = tiny_model(name, attention=attention)
    config, batch = model.config, inputs(model.config)
    shapes = expected_shapes(config, *batch["input_ids"].shape, target=4)
    plain = model(**batch)
    named = model(**batch, output_hidden_states=True, output_attentions=True)
    torch.testing.assert_close(named[0], plain[0], **CLOSE)
    assert set(named) == set(plain) | set(shapes)
    assert {key: [tuple(part.shape) for part in named[key]] for key in shapes} == shapes
    assert all(tensor.isfinite().all() for tensor in tensors(named))
    for key in shapes:
        of_source = key in ("cross_attentions", "encoder_attentions", "attentions")
        for weights in named[key] if "attentions" in key else ():
            assert (
                not of_source or (weights[(batch["attention_mask"] == 0)[:, None, None].expand_as(weights)] == 0).all()
            )
            if getattr(config, "window", None) != "predictive" and not getattr(config, "sentence_pair", False):
                sums = weights.sum(dim=-1)
                assert (torch.isclose(sums, torch.ones_like(sums)) | (sums == 0)).all()
    by_tuple = model(**batch, output_hidden_states=True, output_attentions=True, return_dict=False)
    assert type(by_tuple) is tuple
    assert all(torch.equal(one, two) for one, two in zip(tensors(by_tuple), tensors(named), strict=True))
    if attention != "sdpa":  # which the config cannot ask for weights
        config.output_hidden_states = config.output_attentions = True
        assert list(model(**batch)) == list(named)
        assert set(model(**batch, output_hidden_states=False, output_attentions=False)) == set(plain)
        config.return_dict = False
        by_config = model(**batch)
        assert type(by_config) is tuple
        assert all(torch.equal(one, two) for one, two in zip(tensors(by_config), tensors(named), strict=True))


@every_model
def test_states_and_weights_retain_their_gradients(name: str) -> None:
    """The states are between the weights and the first output; a loss of attention weights reaches the embeddings."""
    model = tiny_model(name)
    model.set_attn_implementation("eager")
    outputs = model(**inputs(model.config), output_hidden_states=True, output_attentions=True)
    retained = [value[0] for key, value in outputs.items() if key.endswith("hidden_states")]
    if model.config.model_type == "small_transformer":
        # The weights of copying are a view with one dimension more, made for the output alone.
        keys = [key for key in outputs if key.endswith("attentions") and key != "copy_attentions"]
        retained += [outputs[key][0] for key in keys]
    elif getattr(model.config, "score", None) != "none":  # else the decoder takes the encoder's final state alone
        retained += [outputs[key] for key in ("encoder_last_hidden_state", "last_hidden_state") if key in outputs]
    for tensor in retained:
        tensor.retain_grad()
    outputs[0].square().sum().backward(retain_graph=True)
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in retained)
    maps = [weights for key, value in outputs.items() if key.endswith("attentions") and value for weights in value]
    assert maps or model.config.score == "none"
    if maps:
        model.zero_grad()
        sum(weights.square().sum() for weights in maps).backward()
        assert model.get_input_embeddings().weight.grad.any()


@every_model
def test_embeddings_instead_of_ids_give_the_same(name: str) -> None:
    model = tiny_model(name)
    batch, expected = inputs(model.config), compute(model)
    embeddings = {"inputs_embeds": model.get_input_embeddings()(batch["input_ids"])}
    ways = [(embeddings, {"input_ids"})]
    if model.config.is_encoder_decoder:
        target = model.get_decoder().get_input_embeddings()(batch["decoder_input_ids"])
        ways.append(({"decoder_inputs_embeds": target}, {"decoder_input_ids"}))
        ways.append((ways[0][0] | ways[1][0], ways[0][1] | ways[1][1]))
    for given, replaced in ways:
        others = {key: tensor for key, tensor in batch.items() if key not in replaced}
        if name in COPYING_HEADS and "input_ids" in replaced:
            with pytest.raises(ValueError, match="copy=True copies tokens of the source and needs them"):
                model(**others, **given)
            continue
        # torch's LSTM takes another kernel where gradients are made.
        torch.testing.assert_close(model(**others, **given)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_a_source_without_a_target_is_its_own_target(name: str) -> None:
    """Shifted right, as in every encoder-decoder of Transformers; the encoder's outputs may be a tuple or a list."""
    model, source = tiny_model(name), words(2, 5)
    target = torch.cat([torch.full((2, 1), BOS), source[:, :-1]], dim=1)
    expected = model(source, decoder_input_ids=target).logits
    assert torch.equal(model(source).logits, expected)
    dummy = {key: value.to(factory.DEVICE) for key, value in model.dummy_inputs.items()}
    assert model(**dummy).logits.isfinite().all()
    for with_states in (False, True):
        given = model.get_encoder()(source, output_hidden_states=with_states)
        outputs = model(encoder_outputs=given.to_tuple(), decoder_input_ids=target)
        torch.testing.assert_close(outputs.logits, expected, **CLOSE)
        assert (outputs.encoder_hidden_states is not None) == with_states
    if name in RNN_VARIANTS:
        model = tiny_model(name, teacher_forcing_ratio=0.5).train()
        results = []
        for given in ({}, {"decoder_input_ids": target}):
            torch.manual_seed(0)
            results.append(model(source, **given).logits)
        assert torch.equal(*results)


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_the_loss_is_the_same_without_logits_where_labels_have_gaps(name: str) -> None:
    """Tokens without a label are read by those after them."""
    model, target = tiny_model(name), words(2, 12)
    labels = target.clone()
    labels[0, 3:9] = labels[1, :5] = labels[1, 8:] = -100
    batch = {"input_ids": words(2, 5), "decoder_input_ids": target, "labels": labels}
    torch.testing.assert_close(model(**batch, skip_logits=True).loss, model(**batch).loss, **CLOSE)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("name", [name for name in HEADS if not HEADS[name][0].__name__.endswith("Classification")])
def test_labels_are_predicted_where_each_head_has_them(name: str, smoothing: float) -> None:
    """The labels of a causal model are the text, which it shifts; those of others are at the predicting tokens."""
    model = tiny_model(name, **({"coverage_loss_coefficient": 0.0} if "coverage" in name else {}))
    batch = labelled(model)
    outputs = model(**batch, smoothing=smoothing)
    logits, labels = outputs.logits, batch["labels"]
    if not model.config.is_encoder_decoder and model.config.attention_pattern == "causal":
        logits, labels = logits[:, :-1], labels[:, 1:]
    words_of_loss, shift = logits, 0
    if getattr(model.config, "zero_start", False):  # of a vocabulary without the start token
        words_of_loss, shift = logits[..., torch.arange(VOCAB_SIZE) != BOS], 1
    expected_loss = token_cross_entropy(words_of_loss, labels - shift * (labels > BOS).long(), None, smoothing)
    torch.testing.assert_close(outputs.loss, expected_loss, **CLOSE)
    half = model(**batch, smoothing=smoothing, num_items_in_batch=2 * (labels != -100).sum()).loss
    torch.testing.assert_close(half, outputs.loss / 2, **CLOSE)
    if model.config.is_encoder_decoder:  # whose decoder reads the labels one step later
        shifted = torch.cat([torch.full((len(labels), 1), BOS), labels[:, :-1]], dim=1).clamp(min=0)
        expected = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], decoder_input_ids=shifted
        )
        torch.testing.assert_close(outputs.logits, expected.logits, rtol=0, atol=1e-13)
        assert outputs.past_key_values is None  # a training step has no next token
        assert expected.past_key_values.get_seq_length() == labels.shape[1]


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
@pytest.mark.parametrize("name", [name for name in HEADS if "Sequence" in HEADS[name][0].__name__])
def test_every_problem_of_classification(name: str, labels: Tensor, problem: Any, loss: Any) -> None:
    fields = {"penalty_coefficient": 0.0} if HEADS[name][0].__name__.startswith("Self") else {}
    num_labels = 1 if labels.ndim == 1 and labels.is_floating_point() else 3
    model = tiny_model(name, num_labels=num_labels, problem_type=problem, **fields)
    batch = {key: tensor[:3] for key, tensor in inputs(model.config).items()}
    outputs = model(**batch, labels=labels)
    torch.testing.assert_close(outputs.loss, loss(outputs.logits, labels))
    assert model.config.problem_type is not None  # the pipeline of the library reads it
    twice = model(**batch, labels=labels, num_items_in_batch=2 * labels.numel()).loss
    torch.testing.assert_close(twice, outputs.loss / 2)
    if labels.is_floating_point():
        with pytest.raises(ValueError, match=r"smoothing=0.3 is for single labels, not for problem_type="):
            model(**batch, labels=labels, smoothing=0.3)
    else:
        smooth = model(**batch, labels=labels, smoothing=0.3).loss
        torch.testing.assert_close(smooth, nn.functional.cross_entropy(outputs.logits, labels, label_smoothing=0.3))


@pytest.mark.parametrize("options", [{}, {"num_items_in_batch": 7}, {"num_items_in_batch": 0}], ids=str)
@every_head
def test_the_loss_of_a_batch_without_a_label_is_zero(name: str, options: dict[str, Any]) -> None:
    """A NaN would reach every weight through the optimiser."""
    model = tiny_model(name).train()
    batch = labelled(model)
    batch["labels"] = torch.full_like(batch["labels"], -100)
    for path in loss_paths(model):
        loss = model(**batch, **options, **path).loss
        assert loss == 0
        loss.backward()
        assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def loss_paths(model: Any) -> list[dict[str, bool]]:
    """The loss with logits, and without them if the head has that path."""
    return [{}, {"skip_logits": True}] if "skip_logits" in inspect.signature(model.forward).parameters else [{}]


SKIPPING = [name for name, (head, _) in HEADS.items() if "skip_logits" in inspect.signature(head.forward).parameters]
every_skipping_head = pytest.mark.parametrize("name", SKIPPING)


@every_skipping_head
def test_the_loss_without_logits_is_the_loss(name: str) -> None:
    results = []
    for path in ({}, {"skip_logits": True}):
        model = tiny_model(name).train()
        outputs = model(**labelled(model), **path, smoothing=0.3)
        assert (outputs.logits is None) == bool(path)
        outputs.loss.backward()
        results.append([outputs.loss, *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-11)


@every_skipping_head
def test_logits_are_skipped_only_where_a_loss_is_left(name: str) -> None:
    model = tiny_model(name)
    with pytest.raises(ValueError, match="skip_logits=True leaves nothing to return without labels"):
        model(**inputs(model.config), skip_logits=True)


@every_kind
def test_smoothing_and_the_number_of_labels_are_checked_on_every_path(kind: str) -> None:
    model = make_model(kind)
    batch = batch_for(model)
    for path in loss_paths(model):
        for value in (-0.5, 1.5, math.nan, "0.1"):
            with pytest.raises(ValueError, match=rf"smoothing must be a number from 0 to 1, got {value!r}"):
                model(**batch, **path, smoothing=value)
        wrong = -3, torch.tensor(-3), math.nan, math.inf, 10**400, True, "3", 3j, [3, 4], torch.tensor([3, 4]), {}
        for items in wrong:
            with pytest.raises(ValueError, match="num_items_in_batch must be a number of labels, 0 or more, got"):
                model(**batch, **path, num_items_in_batch=items)
        with pytest.raises(ValueError, match=r"num_items_in_batch is 0, and the batch has \d+ labels"):
            model(**batch, **path, num_items_in_batch=0)
        # Trainer passes a tensor of one element where it splits a batch among several GPUs.
        one, number = (model(**batch, **path, num_items_in_batch=items).loss for items in (torch.tensor([5]), 5))
        assert one.shape == ()
        assert torch.equal(one, number)
        unlabelled = batch | {"labels": torch.full_like(batch["labels"], -100)}
        assert model(**unlabelled, **path, num_items_in_batch=0).loss == 0


# Training -------------------------------------------------------------------------------------------------------------


def with_dropout(name: str, rate: float) -> dict[str, Any]:
    """All dropout rates of a model, and for an RNN the random choice of its own words."""
    config = tiny_config(MODELS[name][1])
    rates = {field: rate for field in ("dropout", "attention_dropout", "classifier_dropout") if hasattr(config, field)}
    return rates | ({"teacher_forcing_ratio": 0.5} if rate and hasattr(config, "teacher_forcing_ratio") else {})


@every_model
def test_only_dropout_makes_a_difference_and_only_in_training(name: str) -> None:
    plain, model = tiny_model(name), tiny_model(name, **with_dropout(name, 0.5))
    assert torch.equal(compute(model), compute(plain))
    assert torch.equal(compute(model), compute(model))
    model.train()
    assert not torch.equal(compute(model), compute(model))
    torch.testing.assert_close(compute(plain.train()), compute(plain.eval()), **CLOSE)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
@every_head
def test_every_parameter_gets_a_finite_gradient(name: str, rate: float) -> None:
    """Distributed training would wait for parameters without a gradient. With 0.3 the embeddings are tied."""
    variant = HEADS[name][1]
    fields = with_dropout(name, rate) | (
        tied(variant) if rate == 0.3 and hasattr(tiny_config(variant), "tie_word_embeddings") else {}
    )
    layers = {"encoder_layers": 2, "decoder_layers": 2} if name in RNN_VARIANTS else {"num_hidden_layers": 2}
    model = tiny_model(name, **fields, **layers).train()
    torch.manual_seed(0)
    batch = {key: tensor.repeat(8, *(1 for _ in tensor.shape[1:])) for key, tensor in labelled(model).items()}
    loss = model(**batch).loss
    assert loss.isfinite()
    loss.backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        # A bias of all keys moves every score of a row alike, which the softmax does not see.
        assert parameter.grad.any() or key.endswith("key_proj.bias"), key


CHECKPOINTED = [(name, False) for name in dict.fromkeys([*TRANSFORMER_HEADS, *KINDS.values()])]
CHECKPOINTED += [(name, True) for name in KINDS.values() if name in RNN_VARIANTS]


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable.*:FutureWarning")
@pytest.mark.parametrize(("name", "output_attentions"), CHECKPOINTED)
def test_activation_checkpointing_gives_the_same_gradients_and_stores_less(name: str, output_attentions: bool) -> None:
    """With dropout and two layers; for the RNN also in the decoder's loop that computes attention weights."""
    layers = {"encoder_layers": 2, "decoder_layers": 2} if name in RNN_VARIANTS else {"num_hidden_layers": 2}
    model = tiny_model(name, dropout=0.3, **layers).train()
    batch = labelled(model) | ({"output_attentions": True} if output_attentions else {})
    stored = []

    def run() -> tuple[list[Tensor], int]:
        stored.clear()
        torch.manual_seed(0)
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: stored.append(saved.nbytes) or saved, lambda s: s):
            loss = model(**batch).loss
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))], sum(stored)

    expected, without = run()
    for enable in (model.activation_checkpointing_enable, model.gradient_checkpointing_enable):
        enable()
        assert model.is_activation_checkpointing
        found, with_checkpointing = run()
        torch.testing.assert_close(found, expected, **CLOSE)
        assert with_checkpointing < 0.6 * without
    model.eval()
    assert torch.equal(model(**batch).loss, model(**batch).loss)


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, "autocast"], ids=str)
@every_head
def test_lower_precision_is_near_and_trains(name: str, precision: Any) -> None:
    exact = tiny_model(name, std=0.3, dtype=torch.float32)
    model = exact if precision == "autocast" else tiny_model(name, std=0.3, dtype=precision)
    batch = labelled(model)
    expected = exact(**batch).logits
    with torch.autocast(factory.DEVICE.type, torch.bfloat16, enabled=precision == "autocast"):
        outputs = model(**batch)
        assert outputs.loss.dtype == torch.float32
        dtype = torch.bfloat16 if precision == "autocast" else precision
        assert outputs.logits.dtype == (torch.float32 if name in COPYING_HEADS else dtype)
        torch.testing.assert_close(outputs.logits.float(), expected, rtol=0.1, atol=0.1)
        outputs.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# What a family lacks --------------------------------------------------------------------------------------------------


@every_model
def test_a_backend_that_a_model_lacks_is_refused(name: str) -> None:
    model = tiny_model(name)
    is_transformer = model.config.model_type == "small_transformer"
    assert model.config._attn_implementation == ("sdpa" if is_transformer else "eager")
    for implementation in ("flash_attention_2",) if is_transformer else ("sdpa", "flash_attention_2"):
        with pytest.raises(ValueError, match=f"{type(model).__name__} does not support"):
            model.set_attn_implementation(implementation)
        with pytest.raises(ValueError, match=f"{type(model).__name__} does not support"):
            type(model)._from_config(model.config, attn_implementation=implementation)


@every_model
def test_models_that_generate_are_those_with_a_decoder_and_a_head(name: str) -> None:
    model = tiny_model(name)
    assert model.can_generate() == type(model).__name__.endswith(("ForConditionalGeneration", "ForCausalLM"))
    is_recurrent = model.config.model_type == "attentional_rnn" or "ssru" in name
    assert model._is_stateful == is_recurrent  # assisted decoding is then refused
    assert isinstance(model.get_input_embeddings(), nn.Embedding)
