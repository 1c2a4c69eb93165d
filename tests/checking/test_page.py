"""The tables of docs/check.md list every name, and the properties of every kind."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import attnzoo
from attnzoo.checking.report import PROPERTIES
from tests.checking.correct import ViewHeads
from tests.checking.course_code import Matrices
from tests.checking.unseen import Loop, Translator, TutorialDecoder, step_state

PAGE = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the table with this first line."""
    table = PAGE.split(heading + "\n")[1].split("\n\n")[0]
    return [line.strip("|").split(" | ") for line in table.splitlines()[1:]]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_name_stands_with_its_property() -> None:
    listed: dict[str, str] = {}
    for names, properties, _ in rows("| name | property | fault |"):
        each = code(properties) if len(code(properties)) > 1 else code(properties) * len(code(names))
        listed |= zip(code(names), each, strict=True)
    assert listed == PROPERTIES


OF_LAYER, OF_MASK, OF_LOSS, OF_ENCODER, OF_MODEL, OF_STEPS, OF_STEP = (
    code(properties) for _, properties in rows("| kind | properties |")
)
RIGHT: dict[str, tuple[Callable[[], Any], str, dict[str, Any], set[str]]] = {
    "attention": (ViewHeads, "attention", {}, {*OF_LAYER}),
    "self_attention": (Matrices, "self_attention", {}, {*OF_LAYER}),
    "mask": (lambda: lambda ids: (ids != 0)[:, None], "mask", {"pad": 0}, {*OF_MASK}),
    "loss": (lambda: nn.CrossEntropyLoss(ignore_index=0), "loss", {"pad": 0}, {*OF_LOSS}),
    "encoder": (lambda: nn.Embedding(20, 6, padding_idx=0), "encoder", {"pad": 0}, {*OF_ENCODER}),
    "encoder_decoder": (lambda: Translator(""), "encoder_decoder", {}, {*OF_ENCODER, *OF_MODEL[1:]}),
    "functions": (
        lambda: None,
        "decoder_step",
        step_state(Loop("")),
        {*OF_ENCODER} - {"inputs not changed"} | {*OF_STEPS[2:]},
    ),
    "step": (lambda: TutorialDecoder(""), "decoder_step", {}, {*OF_LAYER} - {"inputs not changed"} | {*OF_STEP[2:]}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_report_has_the_properties_of_its_kind(name: str) -> None:
    torch.manual_seed(0)
    make, kind, options, properties = RIGHT[name]
    report = attnzoo.check(make(), kind, **options)
    assert report.passed, report
    assert {*report.checked, *report.not_checked} == properties
