"""The options of a Marian file: read one by one, and refused where another value means another model."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from attnzoo.firefox.student_options import ASSUMED, REQUIRED, SIZES, UNUSED, StudentOptions
from tests.firefox.models import SIZES as STUDENT
from tests.firefox.models import random_int8_model, random_model

OPTIONS = yaml.safe_load(STUDENT.to_yaml())


@pytest.mark.parametrize("shared", [True, False])
def test_options_are_read_as_they_were_written(shared: bool) -> None:
    student = replace(STUDENT, shared_vocabulary=shared)
    assert StudentOptions.from_yaml(student.to_yaml()) == student


def test_older_files_lack_some_options() -> None:
    older = {name: value for name, value in OPTIONS.items() if name not in ASSUMED | UNUSED}
    assert StudentOptions.from_yaml(yaml.safe_dump(older)) == STUDENT


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - UNUSED.keys()))
def test_every_option_that_changes_the_model_is_required(name: str) -> None:
    values = ["other", -1, 10**9, [[]], {"a": 1}, None, True, False, "", 0, []]
    for value in (value for value in values if value != OPTIONS[name] or type(value) is not type(OPTIONS[name])):
        with pytest.raises(ValueError, match=name):
            StudentOptions.from_yaml(yaml.safe_dump(OPTIONS | {name: value}))
    if name in REQUIRED or name in SIZES:
        with pytest.raises(ValueError, match=name):
            StudentOptions.from_yaml(yaml.safe_dump({key: OPTIONS[key] for key in OPTIONS if key != name}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"transformer-depth-scaling": True}, "transformer-depth-scaling"),
        ({"dim-vocabs": [20, 30]}, "one vocabulary"),
        ({"dim-vocabs": [20]}, "two sizes"),
        ({"tied-embeddings": True}, "tied-embeddings"),
        ({"transformer-heads": 3}, "multiple"),
    ],
)
def test_pairs_that_cannot_be(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        StudentOptions.from_yaml(yaml.safe_dump(OPTIONS | change))


def test_an_option_occurs_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        StudentOptions.from_yaml(STUDENT.to_yaml() + "skip: false\n")


HOSTILE = [
    "",
    "[",
    "a",
    "a: [" * 5000,
    "- " * 9000,
    "&a [*a]",
    "a: &x 1\nb: *x",
    "skip: false\nskip: false",
    "? [a]\n: b",
]
HOSTILE += [
    "!!python/object/apply:os.system ['true']",
    "a: !!timestamp x",
    "\x07",
    "a: \U0001f600 \ud800",
    "a" * 70_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="option"):
        StudentOptions.from_yaml(text)


def test_tensors_are_compared_with_the_options() -> None:
    for model in (random_model(), random_int8_model()):
        STUDENT.check_tensors(model)
        with pytest.raises(ValueError, match=r"has the shape .*\b20\b"):
            replace(STUDENT, source_vocab_size=21, target_vocab_size=21).check_tensors(model)
        with pytest.raises(ValueError, match=r"missing.*encoder_l3"):
            replace(STUDENT, num_encoder_layers=3).check_tensors(model)
        model.items["other"] = np.ones((1, 1), np.float32)
        with pytest.raises(ValueError, match="other"):
            STUDENT.check_tensors(model)
