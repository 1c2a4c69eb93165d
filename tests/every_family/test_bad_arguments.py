"""Bad arguments of the public functions: the error names the argument and its value, and the package itself raises it,
not torch or a tokenizer.
"""

import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

import attnzoo
from tests.factory import BASES, HEADS, SEQ2SEQ_HEADS, TOKENIZER, make_model, refused
from tests.viewer.tiny_hugging_face import tiny

PACKAGE = Path(attnzoo.__file__).parent
READS_32 = "encoder_decoder-pre-learned"  # the most tokens it reads


def require_own_error(call: Any, *fragments: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    place = Path(traceback.extract_tb(caught.value.__traceback__)[-1].filename)
    assert place.is_relative_to(PACKAGE), place
    for fragment in fragments:
        assert str(fragment) in str(caught.value)


NO_MODELS: dict[str, Any] = {"None": None, "a name": "attentional-rnn-g2p-cmudict", "a module": nn.Linear(2, 2)}
NO_TOKENIZERS: list[Any] = [None, "attentional-rnn-g2p-cmudict", len]
TEXTS: list[tuple[Any, str]] = [
    (None, "NoneType"),
    (3, "int: 3"),
    ("abc", "str: 'abc'"),
    (b"abc", "bytes"),
    ({"abc": 1}, "dict"),
    (torch.tensor([[3, 4]]), "tokenizer.batch_decode"),
    (iter(["abc"]), "iterator"),
    ([3], "int: 3"),
    ([None], "NoneType"),
    ([b"abc"], "bytes"),
    ([[3, 4]], "list: [3, 4]"),
    ([torch.tensor([3, 4])], "tensor of int64"),
]
NUMBERS: list[tuple[dict[str, Any], str]] = [
    *(({"layer": value}, f"the decoder's layers, got {value!r}") for value in (True, "x", None, 9, -9, 0.0, [0])),
    *(({"head": value}, f"the layer's heads, or None, got {value!r}") for value in (True, "x", -1, 99, 1.5, [0])),
    *(
        ({"shift": value}, f"shift must be 'paper', or 0 or more steps, got {value!r}")
        for value in (True, -1, "x", 1.0, None)
    ),
    *(
        ({"batch_size": value}, f"batch_size must be a whole number of at least 1, got {value!r}")
        for value in (True, 0, -1, 1.5, "4", None)
    ),
    *(({"heads": value}, "heads must be") for value in ("x", [], [0, 1], [(0,)], 3)),
    ({"heads": [(True, 0)]}, "layer must be 0 to"),
    ({"heads": [(0, True)]}, "head must be 0 to"),
    ({"heads": [([0], 0)]}, "layer must be 0 to"),
]


@pytest.mark.parametrize("name", [*(name for name in HEADS if name not in SEQ2SEQ_HEADS), *BASES])
def test_align_needs_an_encoder_decoder_with_an_output_projection(name: str) -> None:
    model = make_model(name)
    said = "model must be an encoder-decoder for conditional generation", f"got {type(model).__name__}"
    require_own_error(lambda: attnzoo.align(model, TOKENIZER, ["abc"], ["ab"]), *said)
    require_own_error(lambda: attnzoo.align(model, TOKENIZER, ["abc"], ["abc"], head=0, layer=0), *said)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_align_needs_an_encoder_decoder_of_the_library(name: str) -> None:
    require_own_error(lambda: attnzoo.align(tiny(name), TOKENIZER, ["abc"], ["ab"]), "model must be an encoder-decoder")


@pytest.mark.parametrize("side", ["sources", "targets"])
@pytest.mark.parametrize(("texts", "given"), TEXTS, ids=[str(case) for case in range(len(TEXTS))])
def test_texts_to_align(side: str, texts: Any, given: str) -> None:
    model = make_model("attentional-rnn")
    arguments = {"sources": ["abc"], "targets": ["ab"]} | {side: texts}
    require_own_error(lambda: attnzoo.align(model, TOKENIZER, **arguments), side.removesuffix("s"), given)


@pytest.mark.parametrize(("options", "said"), NUMBERS, ids=[str(options) for options, _ in NUMBERS])
@pytest.mark.parametrize("name", ["attentional-rnn", "transformer-encoder-decoder"])
def test_numbers_of_align(name: str, options: dict[str, Any], said: str) -> None:
    require_own_error(lambda: attnzoo.align(make_model(name), TOKENIZER, ["abc"], ["ab"], **options), said)


@pytest.mark.parametrize("given", NO_MODELS.values(), ids=NO_MODELS)
def test_what_is_no_model(given: Any) -> None:
    for call in (
        lambda: attnzoo.align(given, TOKENIZER, ["abc"], ["ab"]),
        lambda: attnzoo.view(given, TOKENIZER, "abc"),
    ):
        require_own_error(call, "model must be", f"got {type(given).__name__}")
    with refused((TypeError, ValueError), type(given).__name__), attnzoo.record_attention(given):
        pass


@pytest.mark.parametrize("given", NO_TOKENIZERS, ids=str)
@pytest.mark.parametrize("name", ["attentional-rnn", "self-attentive", "transformer-causal"])
def test_what_is_no_tokenizer(name: str, given: Any) -> None:
    model = make_model(name)
    said = "tokenizer must be", f"got {type(given).__name__}"
    require_own_error(lambda: attnzoo.view(model, given, "abc"), *said)
    if name == "attentional-rnn":
        require_own_error(lambda: attnzoo.align(model, given, ["abc"], ["ab"]), *said)


@pytest.mark.parametrize("text", [None, 3, b"abc", [], "", " ", [3], ("a", ""), torch.tensor([[3]])], ids=str)
@pytest.mark.parametrize("name", ["attentional-rnn", "self-attentive", "transformer-causal"])
def test_texts_to_view(name: str, text: Any) -> None:
    require_own_error(lambda: attnzoo.view(make_model(name), TOKENIZER, text), "text")


@pytest.mark.parametrize(("side", "pair"), [("source", ("a" * 40, "a")), ("target", ("a", "a" * 40))])
def test_a_text_longer_than_the_positions_is_named(side: str, pair: tuple[str, str]) -> None:
    model = make_model(READS_32)
    said = "has 41 tokens", "32 positions (max_position_embeddings)"
    sources, targets = zip(pair, ("b", "b"), strict=True)
    require_own_error(lambda: attnzoo.align(model, TOKENIZER, sources, targets), f"{side} 'a a a", *said)
    require_own_error(lambda: attnzoo.view(model, TOKENIZER, *pair), "text" if side == "source" else "target", *said)


@pytest.mark.parametrize("name", ["bart", "bert", "gpt2"])
def test_a_text_longer_than_the_positions_of_the_library_is_named(name: str) -> None:
    model = tiny(name, max_position_embeddings=32)
    said = "has 41 tokens, and the model has 32 positions"
    require_own_error(lambda: attnzoo.view(model, TOKENIZER, "a" * 40), "text", said)
    if name == "bart":
        require_own_error(lambda: attnzoo.align(model, TOKENIZER, ["a" * 40], ["a"]), "source 'a a a", said)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"layers": 3}, "3"), ({"layers": "x"}, "'x'"), ({"heads": 0}, "0"), ({"kinds": "self"}, "'self'")],
    ids=str,
)
def test_what_to_record(options: dict[str, Any], said: str) -> None:
    with refused(TypeError, f"{next(iter(options))} must be a list, or None for all, got {said}"):  # noqa: SIM117
        with attnzoo.record_attention(make_model("transformer-causal"), **options):
            pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((None, "b", min), "source"),
        (("a", 3, min), "target"),
        (("a", "b", {(0, 0)}), "aligner"),
        (("a", "b", None), "aligner"),
    ],
    ids=str,
)
def test_markup(arguments: tuple[Any, ...], said: str) -> None:
    require_own_error(lambda: attnzoo.transfer_markup(*arguments), f"{said} must be")


@pytest.mark.parametrize("name", [None, 3, "", "attentional-rnn-g2p-cmudic", ["a"], Path("x")], ids=str)
def test_names_of_models(name: Any) -> None:
    advice = "attentional-rnn-g2p-cmudict" if isinstance(name, str) else "name must be str"
    require_own_error(lambda: attnzoo.model_path(name), repr(name), advice)


def test_an_adapted_model_is_aligned_and_shown() -> None:
    """An adapted model is an object of PEFT that wraps the model."""
    model = make_model("attentional-rnn")
    expected = attnzoo.align(model, TOKENIZER, ["abc"], ["ab"])
    adapted = get_peft_model(model, LoraConfig(r=2, task_type="SEQ_2_SEQ_LM"))
    assert attnzoo.align(adapted, TOKENIZER, ["abc"], ["ab"])[0].links == expected[0].links
    assert attnzoo.view(adapted, TOKENIZER, "abc", "ab").weights.keys() == {"cross"}
