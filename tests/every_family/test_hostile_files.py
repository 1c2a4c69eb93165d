"""Damaged or hostile files of a model: an error names the file, and nothing is run or ignored."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, BertConfig, BertModel, GenerationConfig, modeling_utils

from attnzoo import search, with_self_attentive_pooling
from attnzoo.json_files import MAX_BYTES, read_mapping
from tests.factory import EOS, VOCAB_SIZE, auto_class_of, every_kind, refused, tiny_model, words

GENERATING = ["attentional-rnn", "attentional-rnn-luong", "transformer-encoder-decoder", "transformer-causal"]
every_generating_kind = pytest.mark.parametrize("kind", GENERATING)
RANGE = f"within the vocabulary, 0 to {VOCAB_SIZE - 1}"
ONE, SOME = "must be the id of a token", "must be the id of a token, or a list of ids"
WRONG: list[tuple[str, Any, str]] = [
    ("eos_token_id", -1, RANGE),
    ("eos_token_id", 10**9, RANGE),
    ("eos_token_id", [], SOME),
    ("eos_token_id", [EOS, VOCAB_SIZE], RANGE),
    ("eos_token_id", 2.0, SOME),
    ("forced_eos_token_id", VOCAB_SIZE, RANGE),
    ("forced_bos_token_id", -1, RANGE),
    ("pad_token_id", [0], ONE),
    ("pad_token_id", VOCAB_SIZE, RANGE),
    ("bos_token_id", True, ONE),
    ("decoder_start_token_id", -1, RANGE),
    ("suppress_tokens", "x", "must be a list of ids"),
    ("suppress_tokens", 3, "must be a list of ids"),
    ("begin_suppress_tokens", [[3]], "must be a list of ids"),
    ("encoder_no_repeat_ngram_size", 10**9, "must be a whole number from 0 to 1,000,000"),
    ("max_new_tokens", 10**9, "must be at most 1,000,000"),
    ("min_new_tokens", 10**9, "must be a whole number from 0 to 1,000,000"),
    ("max_length", 1e9, "must be a whole number"),
    ("num_beams", "x", "must be a whole number"),
    ("num_beams", 10**9, "must be at most 10,000"),
    ("length_penalty", float("nan"), "must be a number between -50 and 50"),
    ("length_penalty", 10**9, "must be a number between -50 and 50"),
    ("exponential_decay_length_penalty", [1], "must be a whole number, the first token that it changes, and"),
    ("exponential_decay_length_penalty", [1, "x"], "must be a whole number, the first token that it changes, and"),
    ("sequence_bias", [[]], "must be a list of pairs of a list of token ids and a finite number"),
    ("sequence_bias", [[[1], "x"]], "must be a list of pairs of a list of token ids and a finite number"),
    ("watermarking_config", 3, "must be a WatermarkingConfig, or the dictionary of one"),
    ("temperature", {}, "must be a finite number"),
    ("top_k", -3, "must be a whole number of at least 0"),
    ("do_sample", "no", "must be True or False"),
]


def change(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@every_generating_kind
def test_options_that_cannot_be_right_are_refused_at_load_and_at_use(kind: str, tmp_path: Path) -> None:
    model = tiny_model(kind)
    model.save_pretrained(tmp_path)
    file = tmp_path / "generation_config.json"
    sound = file.read_text()
    for name, value, message in WRONG:
        change(file, **{name: value})
        with refused(ValueError, file, name, message):
            auto_class_of(kind).from_pretrained(tmp_path)
        for custom_generate in (None, search):
            with refused(ValueError, name, message):
                model.generate(words(1, 3), custom_generate=custom_generate, **{name: value})
        file.write_text(sound)
    given = GenerationConfig(eos_token_id=VOCAB_SIZE)
    with refused(ValueError, "generation_config: eos_token_id", RANGE):
        auto_class_of(kind).from_pretrained(tmp_path, generation_config=given)


@every_generating_kind
def test_what_the_generation_config_does_not_state_the_config_does(kind: str, tmp_path: Path) -> None:
    """Without the end token a model would write until its limit."""
    tiny_model(kind).save_pretrained(tmp_path)
    file = tmp_path / "generation_config.json"
    sound = file.read_text()
    for name, value in json.loads(sound).items():
        if name.endswith("token_id"):
            change(file, **{name: None})
            found = auto_class_of(kind).from_pretrained(tmp_path).generation_config
            assert getattr(found, name) == value
            file.write_text(sound)


@every_generating_kind
@pytest.mark.parametrize("content", ["", "[]", "null", "3", '{"num_beams": ', "[" * 10**5])
def test_a_damaged_generation_config_is_not_ignored(kind: str, content: str, tmp_path: Path) -> None:
    tiny_model(kind).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text(content)
    with refused(ValueError, "generation_config.json is damaged"):
        auto_class_of(kind).from_pretrained(tmp_path)


def test_a_search_holds_no_more_than_it_finds() -> None:
    """A limit of a million tokens takes no memory before the tokens are generated."""
    model = tiny_model("attentional-rnn")
    options: dict[str, Any] = {"num_beams": 3, "forced_eos_token_id": None, "sequence_bias": {(EOS,): 50.0}}
    batch = words(2, 4)
    expected = model.generate(batch, max_new_tokens=30, custom_generate=search, **options)
    with torch.profiler.profile(profile_memory=True) as memory:
        found = model.generate(batch, max_new_tokens=10**6, custom_generate=search, **options)
    assert found.tolist() == expected.tolist()
    assert max(event.cpu_memory_usage for event in memory.key_averages()) < 10**6


KERNELS = [
    ("_attn_implementation", "owner/kernel"),
    ("attn_implementation", "owner/kernel@v1:attend"),
    ("_attn_implementation_internal", "owner/kernel"),
    ("_attn_implementation", {"": "owner/kernel"}),
]


@pytest.fixture
def asked_kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that Transformers was about to download."""
    asked: list[str] = []

    def note(name: str, **options: Any) -> None:
        asked.append(name)
        raise RuntimeError("there is no network")

    monkeypatch.setattr(modeling_utils, "lazy_import_flash_attention", note)
    return asked


@every_kind
def test_no_kernel_of_the_hub_runs_unless_the_caller_asks(kind: str, asked_kernels: list[str], tmp_path: Path) -> None:
    model = tiny_model(kind)
    model.save_pretrained(tmp_path)
    sound = (tmp_path / "config.json").read_text()
    for name, value in KERNELS:
        (tmp_path / "config.json").write_text(sound)
        change(tmp_path / "config.json", **{name: value})
        for load in (auto_class_of(kind).from_pretrained, type(model).from_pretrained, AutoConfig.from_pretrained):
            with refused(ValueError, f"{name}={value!r} in config.json is code on the Hub"):
                load(tmp_path)
        with refused(ValueError, f"{name}={value!r}"):
            type(model.config).from_json_file(tmp_path / "config.json")
        found = type(model).from_pretrained(tmp_path, attn_implementation="eager")
        assert found.config._attn_implementation == "eager"
    assert not asked_kernels
    with pytest.raises(RuntimeError, match="there is no network"):
        type(model).from_pretrained(tmp_path, attn_implementation="my/own")
    with pytest.raises(RuntimeError, match="there is no network"):
        found.set_attn_implementation("my/other")
    assert asked_kernels == ["my/own", "my/other"]


def test_no_kernel_runs_for_the_encoder_inside_a_config(asked_kernels: list[str], tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    encoder = BertModel(BertConfig(vocab_size=VOCAB_SIZE, **sizes))
    with_self_attentive_pooling(encoder, num_labels=2).save_pretrained(tmp_path)
    inside = json.loads((tmp_path / "config.json").read_text())["encoder"]
    change(tmp_path / "config.json", encoder=inside | {"_attn_implementation": "owner/kernel"})
    for auto_class in (AutoConfig, AutoModel):
        with refused(ValueError, "_attn_implementation='owner/kernel' in config.json is code on the Hub"):
            auto_class.from_pretrained(tmp_path)
    assert not asked_kernels


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    with open(tmp_path / "large.json", "wb") as file:
        file.truncate(MAX_BYTES + 1)  # a hole, which takes no room on the disk
    with refused(ValueError, "large.json has more than"):
        read_mapping(tmp_path / "large.json")
    if os.name != "nt":
        with refused(ValueError, "/dev/zero is not a plain file"):
            read_mapping("/dev/zero")
    with pytest.raises(FileNotFoundError):
        read_mapping(tmp_path / "none.json")
