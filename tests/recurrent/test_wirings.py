"""Every wiring with every score, window, cell and encoder equals the loop, values and gradients."""

import re
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn

from attnzoo import AttentionalRNNConfig, SelfAttentiveConfig
from attnzoo.configuration_attentional_rnn import WIRING_DEFAULTS
from tests.attention.tensors import assert_equal
from tests.recurrent.wirings import (
    ACCEPTED,
    CELLS,
    COPIED,
    COPYING,
    DEPTHS,
    DIRECTIONS,
    LOSS_CASES,
    MASK,
    REFUSED,
    SCORES,
    SIZES,
    WHOLE,
    WINDOWS,
    WIRINGS,
    assert_equals_the_loop,
    assert_same_alignments,
    assert_same_gradients,
    batch,
    case_id,
    configuration,
    gradients,
    loop_translation,
    params,
    wired_model,
)
from tests.reference import attentional_rnn as reference


def faults(choice: dict[str, Any]) -> list[tuple[str, ...]]:
    """The faults of a choice, and for each the parts of its message: the fields, and what would work."""
    wiring, score, window = (f"{name}={choice[name]!r}" for name in ("wiring", "score", "window"))
    found = []
    if choice["input_feeding"] and choice["wiring"] != "luong":
        found.append(("input_feeding=True", wiring, "wiring='luong'"))
    if choice["wiring"] in ("cho", "sutskever"):
        if choice["score"] != "none":
            found.append((wiring, score, "score='none'", "wiring='bahdanau'", "wiring='luong'"))
        if choice["window"] != "global":
            found.append((wiring, window, "window='global'", "wiring='bahdanau'", "'luong'"))
    elif choice["score"] == "none":
        found.append((wiring, score, "wiring='cho'", "wiring='sutskever'", *map(repr, SCORES)))
    return found


def test_the_configs_take_what_is_registered() -> None:
    for name, registered in (("wiring", WIRINGS), ("window", WINDOWS), ("cell", CELLS)):
        assert list(get_args(AttentionalRNNConfig.__annotations__[name])) == registered, name
    assert {*get_args(SelfAttentiveConfig.__annotations__["cell"])} == {*CELLS}
    assert list(WIRING_DEFAULTS) == WIRINGS
    papers = (Path(__file__).parents[2] / "training" / "architecture.md").read_text()  # that model cards name
    assert {*WIRINGS} <= {*re.findall(r'"(\w+)": "', papers.splitlines()[0])}


def test_the_product_is_whole() -> None:
    assert len(WHOLE) == 4 * 6 * 3 * 4 * 2
    assert len(ACCEPTED) == 2 * 4 + 5 * 3 * 4 + 5 * 3 * 4 * 2


def test_what_does_not_go_together_is_refused_with_what_would() -> None:
    for case in REFUSED:
        with pytest.raises((StrictDataclassError, ValueError)) as caught:
            configuration(case | (COPIED if case["score"] == "dot" else {}))
        message = str(caught.value)
        assert any(all(fragment in message for fragment in fault) for fault in faults(case)), (case, message)


@pytest.mark.parametrize("case", params(ACCEPTED))
def test_a_wiring_equals_the_loop(case: dict[str, Any]) -> None:
    assert_equals_the_loop(case | (COPIED if case["score"] == "dot" else {}))


@pytest.mark.parametrize("case", COPYING, ids=case_id)
def test_copying_and_coverage_equal_the_loop(case: dict[str, Any]) -> None:
    assert_equals_the_loop(case)
    inputs, model = batch(), wired_model(case)
    whole = model(**inputs, smoothing=0.1)
    torch.testing.assert_close(model(**inputs, smoothing=0.1, skip_logits=True).loss, whole.loss)  # packed rows


# What looks at places of the source has to find them where they were given, in whatever direction they are read.
LOOKS = {
    "gru": {"score": "additive", "window": "monotonic"},
    "lstm": {"score": "general", "window": "predictive"},
}


def encoder_cases() -> list[dict[str, Any]]:
    """Every direction and depth for every wiring, with a cell with a cell state and one without; if a start state can
    be copied, both copied and bridged. Another test compares every cell with its loop.
    """
    cases = []
    for wiring, (name, direction), depth, cell in product(WIRINGS, DIRECTIONS.items(), DEPTHS, LOOKS):
        case = {"wiring": wiring, "cell": cell, "encoder_layers": depth[0], "decoder_layers": depth[1], **direction}
        if wiring in ("bahdanau", "luong"):
            case |= {**LOOKS[cell], "input_feeding": wiring == "luong"}
        if (name, depth) != ("both", (1, 1)):  # which ACCEPTED has
            cases.append(case)
        if wiring in ("sutskever", "luong") and depth[0] == depth[1]:
            cases.append(case | {"decoder_hidden_size": SIZES["encoder_hidden_size"] * (2 if name == "both" else 1)})
    return cases


@pytest.mark.parametrize("case", params(encoder_cases()))
def test_a_wiring_over_any_encoder_equals_the_loop(case: dict[str, Any]) -> None:
    assert_equals_the_loop(case)
    copies = "decoder_hidden_size" in case
    bridge = getattr(wired_model(case).model.decoder.wiring, "bridge", None)
    assert copies == (bridge is not None and bridge.hidden_proj is None)


@pytest.mark.parametrize("case", params(LOSS_CASES))
def test_without_a_mask_every_token_is_real(case: dict[str, Any]) -> None:
    model, inputs = wired_model(case).eval(), batch()
    expected = loop_translation(model, inputs | {"attention_mask": torch.ones_like(MASK)})
    actual = model(input_ids=inputs["input_ids"], labels=inputs["labels"], output_attentions=True)
    assert_equal(actual.logits, expected.logits, "logits")
    assert_same_alignments(actual, expected)


@pytest.mark.parametrize("case", params(LOSS_CASES))
def test_tied_embeddings_equal_the_loop(case: dict[str, Any]) -> None:
    """One matrix is in three places: its gradient is the sum of all three."""
    tied = {"tie_word_embeddings": True, "embedding_size": configuration(case).readout_size}
    model, inputs = wired_model(case | tied), batch()
    expected = loop_translation(model, inputs).logits
    actual = model(**inputs).logits
    assert_equal(actual, expected, "logits")
    flat = inputs["labels"].flatten()
    loss = nn.functional.cross_entropy(actual.flatten(0, 1), flat)
    names = dict(model.named_parameters())
    assert sum(name.endswith("embed_tokens.weight") or name == "lm_head.weight" for name in names) == 1
    assert_same_gradients(gradients(loss, model), gradients(reference.cross_entropy(expected, inputs["labels"]), model))


@pytest.mark.parametrize("case", params([case | {"cell": cell} for case, cell in product(LOSS_CASES, CELLS)]))
def test_autocast_computes_the_same_in_less_precision(case: dict[str, Any]) -> None:
    """Mixed precision as in a training loop: every part accepts the dtypes of the others."""
    model, inputs = wired_model(case).float().train(), batch()
    expected = model(**inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**inputs, output_attentions=True)
    if case.get("window") != "predictive":  # whose windows jump by a token where rounding moves p_t past an integer
        # bfloat16 has 8 bits, and the logits, of size 1, are some ten roundings away from the embeddings
        torch.testing.assert_close(outputs.logits.float(), expected, rtol=0.05, atol=0.1)
    if "score" in case:
        assert outputs.cross_attentions[0].dtype == torch.float32
    for name, gradient in gradients(outputs.loss, model).items():
        assert gradient.isfinite().all(), name
