"""Copying and coverage without the loops: worked by hand, at the limits of numbers, and errors."""

from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from attnzoo import AttentionalRNNConfig, SmallTransformerConfig
from attnzoo.copying import Copied, pointer_generator
from attnzoo.export import to_ctranslate2, to_onnx
from attnzoo.loss import coverage_loss
from tests.factory import TOKENIZER, make_model, padded_batch, refused, tiny_model, words


def copied(gate: float, weights: list[float], ids: list[int], dtype: torch.dtype = torch.float64) -> Copied:
    return Copied(torch.tensor([[gate]], dtype=dtype), torch.tensor([[weights]], dtype=dtype), torch.tensor([ids]))


def test_a_mixture_by_hand() -> None:
    """p_gen = 1/4; the word 2 is twice in the source, and the word 1 is not."""
    gate = -torch.tensor(3.0, dtype=torch.float64).log().item()
    given = copied(gate, [0.5, 0.3, 0.2], [2, 0, 2])
    found = pointer_generator(torch.zeros(1, 1, 3, dtype=torch.float64), given).exp()
    expected = torch.tensor([[[1 / 12 + 0.75 * 0.3, 1 / 12, 1 / 12 + 0.75 * 0.7]]], dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_a_loss_of_coverage_by_hand() -> None:
    """min(a, c): 0 at the first step, min(.5, 1) + min(.5, 0) at the second, min(.4, 1.5) + min(.6, .5) at the last."""
    weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.4, 0.6]]])
    assert coverage_loss(weights, torch.tensor([[3, 3, 3]])).item() == pytest.approx((0 + 0.5 + 0.9) / 3)
    assert coverage_loss(weights, torch.tensor([[3, 3, -100]])).item() == pytest.approx(0.5 / 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("gate", [-3e4, 0.0, 3e4])
def test_extreme_gates_logits_and_weights_give_finite_numbers_and_gradients(dtype: torch.dtype, gate: float) -> None:
    weights = torch.tensor([[[1.0, 0.0, 1e-42, 1e-30]]], requires_grad=True)
    given = Copied(torch.tensor([[gate]], dtype=dtype, requires_grad=True), weights, torch.tensor([[4, 5, 6, 7]]))
    logits = torch.tensor([[[3e4, -3e4, 0.0, 0.0, -3e4, 0.0, 0.0, -3e4]]], dtype=dtype, requires_grad=True)
    found = pointer_generator(logits, given)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    torch.testing.assert_close(found.logsumexp(dim=-1), torch.zeros(1, 1))
    for word in range(8):
        gradients = torch.autograd.grad(found[0, 0, word], (given.gate, weights, logits), retain_graph=True)
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_without_a_source_all_words_are_written() -> None:
    logits = torch.randn(1, 1, 5, dtype=torch.float64)
    found = pointer_generator(logits, copied(-2.0, [0.0, 0.0], [1, 2]))
    torch.testing.assert_close(found, logits.log_softmax(dim=-1))


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ({"wiring": "cho", "copy": True}, ("copy=True", "wiring='cho'", "'bahdanau'", "'luong'")),
        ({"wiring": "luong", "window": "predictive", "copy": True}, ("copy=True", "window='predictive'", "'global'")),
        (
            {"wiring": "luong", "score": "dot", "coverage": True},
            ("coverage=True", "score='dot'", "'additive'", "'concat'"),
        ),
        ({"wiring": "sutskever", "coverage": True}, ("coverage=True", "score='none'")),
        ({"coverage_loss_coefficient": -1}, ("coverage_loss_coefficient", "-1")),
        ({"coverage_loss_coefficient": float("nan")}, ("coverage_loss_coefficient", "nan")),
    ],
    ids=str,
)
def test_what_does_not_go_together_with_copying(fields: dict[str, Any], fragments: tuple[str, ...]) -> None:
    with refused(StrictDataclassError, *fragments):
        AttentionalRNNConfig(**fields)


@pytest.mark.parametrize("pattern", ["causal", "bidirectional"])
def test_a_transformer_without_a_source_copies_nothing(pattern: str) -> None:
    with refused(StrictDataclassError, "copy=True", "encoder_decoder", pattern):
        SmallTransformerConfig(attention_pattern=pattern, copy=True)


def test_the_loss_of_coverage_is_not_lost_where_a_trainer_withholds_the_labels() -> None:
    model = tiny_model("luong-lstm-concat-copy-coverage").train()
    inputs = {"input_ids": words(2, 5), "decoder_input_ids": words(2, 3), "num_items_in_batch": 6}
    with refused(ValueError, "withholds the labels", "coverage_loss_coefficient=1.0"):
        model(**inputs)
    model.eval()(**inputs)
    model.config.coverage_loss_coefficient = 0
    model.train()(**inputs)


def test_a_cache_of_a_model_without_coverage_is_refused() -> None:
    name, source = "luong-lstm-concat-copy-coverage", words(2, 5)
    with_coverage, without = tiny_model(name), tiny_model(name, coverage=False)
    past = without(source, decoder_input_ids=words(2, 1), use_cache=True).past_key_values
    with refused(ValueError, "past_key_values is from another model", "coverage"):
        with_coverage(source, decoder_input_ids=words(2, 1), past_key_values=past)


def test_coverage_changes_the_attention_of_later_steps_only() -> None:
    name = "bahdanau-gru-additive-copy-coverage"
    model, (source, mask) = tiny_model(name), padded_batch([6, 4])
    target = words(2, 4)
    plain = tiny_model(name, coverage=False)
    plain.load_state_dict({key: value for key, value in model.state_dict().items() if "coverage" not in key})
    one, other = (
        m(source, attention_mask=mask, decoder_input_ids=target, output_attentions=True).cross_attentions[0]
        for m in (model, plain)
    )
    torch.testing.assert_close(one[:, :, 0], other[:, :, 0])
    assert (one - other)[:, :, 1].abs().max() > 1e-3


@pytest.mark.parametrize("name", ["luong-lstm-concat-copy-coverage", "encoder_decoder-pre-sinusoidal-copy"])
def test_no_export_copies(name: str, tmp_path: Any) -> None:
    model = make_model(name)
    with refused(ValueError, "copy=True", "ONNX"):
        to_onnx(model, tmp_path / "onnx")
    if name.startswith("encoder"):
        with refused(ValueError, "copy=True", "CTranslate2"):
            to_ctranslate2(model, tmp_path / "ct2", TOKENIZER)
    assert not list(tmp_path.iterdir())
