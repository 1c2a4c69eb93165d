"""Every option of ``generate()`` gives what BART and GPT-2 give, or an error that says why not; so does ``search``."""

import inspect
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Cache, GenerationConfig
from transformers.generation import GenerationMixin
from transformers.utils import ModelOutput

from attnzoo import search
from tests.every_family.generate_options import CASES, SOURCE, Case, is_recurrent, named_model
from tests.factory import PAD, SEQ2SEQ_HEADS

pytestmark = [pytest.mark.usefixtures("no_gradients"), pytest.mark.filterwarnings("ignore")]

# Set by Transformers itself.
NOT_OPTIONS = {"transformers_version", "is_assistant"}
# Arguments of generate() in its **kwargs, besides the fields of a GenerationConfig.
OTHER_ARGUMENTS = {"tokenizer", "assistant_tokenizer", "trust_remote_code", "past_key_values", "inputs_embeds"}
OTHER_ARGUMENTS |= {"encoder_outputs", "decoder_input_ids", "decoder_inputs_embeds", "attention_mask"}
# A model of every wiring and pattern, with and without copying.
NAMES = ["bahdanau-gru-additive-copy-coverage", "luong-lstm-general-predictive-feeding", "cho-cho_gru-forward"]
NAMES += ["sutskever-lstm-2-layers-reversed", "encoder_decoder-post-sinusoidal", "encoder_decoder-pre-sinusoidal-copy"]
NAMES += ["causal-pre-learned"]
PER_STEP = ("scores", "logits", "attentions", "hidden_states", "decoder_attentions", "decoder_hidden_states")

model_of = cache(named_model)


def outcome(model: Any, case: Case, **extra: Any) -> Any:
    """What ``generate()`` returns, or the error that it raises."""
    torch.manual_seed(3)
    before = str(model.config), str(model.generation_config)
    arguments = case.arguments(model) | extra
    try:
        found = model.generate(**arguments)
    except Exception as error:
        found = error
    else:
        if streamer := arguments.get("streamer"):  # the prompts first, then a token of every row at each step
            start = streamer.tokens[0].numel() // len(found)
            assert torch.cat(streamer.tokens).equal(
                torch.cat([found[:, :start].flatten(), found[:, start:].t().flatten()])
            )
            assert streamer.has_ended
    assert (str(model.config), str(model.generation_config)) == before
    return found


def sequences(found: Any) -> Tensor:
    return found if isinstance(found, Tensor) else found.sequences


def form(found: Any, may_end: bool) -> Any:
    """The type of a result, its fields, and the shapes and numbers of steps that do not depend on the model."""
    length = slice(0, 1) if may_end else slice(None)
    if isinstance(found, Tensor):
        return tuple(found.shape[length])
    parts: dict[str, Any] = {"type": type(found)}
    for name, part in found.items():
        if isinstance(part, Tensor):
            parts[name] = tuple(part.shape[length])
        elif name in PER_STEP:
            parts[name] = None if may_end else len(part)
        else:
            parts[name] = Cache if isinstance(part, Cache) else type(part)
    for name in ("scores", "logits"):
        if name in found and not may_end:
            parts[f"shapes of {name}"] = [tuple(step.shape) for step in found[name]]
    return parts


def new_tokens(model: Any, row: Tensor, may_end: bool) -> list[int]:
    tokens = row.tolist()[1 if model.config.is_encoder_decoder else SOURCE.shape[1] :]
    while may_end and tokens[-1] == PAD:
        tokens.pop()
    return tokens


def assert_one_sentence(error: Exception, *fragments: str) -> None:
    assert isinstance(error, ValueError | TypeError), repr(error)
    assert all(fragment in str(error) for fragment in fragments), repr(error)


def test_every_option_is_considered() -> None:
    """A new field of GenerationConfig, or argument of generate(), needs a case above."""
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    arguments = {*inspect.signature(GenerationMixin.generate).parameters} - {"self", "kwargs"}
    given = {name for case in CASES.values() for name in case.arguments(model_of("encoder_decoder-post-sinusoidal"))}
    missing = (fields | arguments | OTHER_ARGUMENTS) - NOT_OPTIONS - given
    assert not missing, f"no case in generate_options.py has {sorted(missing)}"


def assert_search_returns_the_same_or_says_what_to_do(model: Any, case: Case, plain: Any) -> None:
    found = outcome(model, case, custom_generate=search)
    if isinstance(plain, Exception):
        assert isinstance(found, Exception), model.made_as
    elif isinstance(found, Exception):
        assert_one_sentence(found, "leave out")
    else:
        assert sequences(found).equal(sequences(plain)), model.made_as
        assert isinstance(found, ModelOutput) == isinstance(plain, ModelOutput)


@pytest.mark.parametrize("label", CASES)
def test_an_option_does_what_it_does_for_bart_and_gpt2_and_for_search(label: str) -> None:
    case = CASES[label]
    is_paged = label == "cache_implementation, paged"  # Transformers takes it before any custom_generate
    expected: dict[str, Any] = {}
    for name in NAMES:
        model = model_of(name)
        if is_paged and not case.is_refused(model):  # minutes; generate_batch() has a test of its own
            continue
        found = outcome(model, case)
        if not is_paged and not label.startswith("custom_generate"):
            assert_search_returns_the_same_or_says_what_to_do(model, case, found)
        if case.is_refused(model):
            assert_one_sentence(found, case.refused[1])  # type: ignore[index]
            continue
        if case.ignored(model):
            assert sequences(found).equal(sequences(outcome(model, CASES["nothing"])))
            continue
        other = "bart" if name in SEQ2SEQ_HEADS else "gpt2"
        if other not in expected:
            expected[other] = outcome(model_of(other), case)
        if isinstance(expected[other], Exception):
            assert isinstance(found, ValueError | TypeError | type(expected[other])), f"{name}: {found!r}"
            continue
        assert not isinstance(found, Exception), f"{name}: {found!r}"
        wanted = form(expected[other], case.may_end)
        if is_recurrent(model) and isinstance(wanted, dict):
            wanted.pop("encoder_attentions", None)  # it has none
        got = form(found, case.may_end)
        if isinstance(wanted, dict) and model.config.is_encoder_decoder:
            got = {key: got.get(key) for key in wanted}
        assert got == wanted, name
        for row in sequences(found):
            assert case.holds(new_tokens(model, row, case.may_end)), f"{name}: {row.tolist()}"
