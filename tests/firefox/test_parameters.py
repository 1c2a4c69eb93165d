"""Firefox's models as small Transformers: every parameter has its name, and Mozilla's engine computes the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnzoo import SmallTransformerForConditionalGeneration
from attnzoo.firefox.engine import by_engine, engine_text, longest_output
from attnzoo.firefox.marian_files import read_marian, write_bin, write_npz
from attnzoo.firefox.parameters import config_of, options_of, to_marian, to_model
from attnzoo.firefox.sentencepiece_file import read_sentencepiece
from attnzoo.firefox.sentencepiece_tokenizer import to_tokenizer
from attnzoo.firefox.student_options import StudentOptions
from tests.factory import refused
from tests.firefox.engines import engine_python
from tests.firefox.models import SIZES, random_int8_model, random_model, varied_model
from tests.firefox.vocabularies import lines, vocabulary

PUBLISHED = {
    16_907_008: StudentOptions(256, 1536, 8, 6, 2, 32_000, 32_000, True),
    31_248_896: StudentOptions(384, 1536, 8, 6, 4, 32_000, 32_000, True),
    42_686_720: StudentOptions(512, 2048, 8, 6, 2, 32_000, 32_000, True),
}


@pytest.mark.parametrize("write", [write_bin, write_npz])
def test_a_model_comes_back_from_its_file(write: Any, tmp_path: Path) -> None:
    model = to_model(random_model(), 0)
    write(tmp_path / "file", to_marian(model))
    again = to_model(read_marian(tmp_path / "file"), 0)
    assert again.config.to_dict() == model.config.to_dict()
    weights = again.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_a_file_comes_back_from_its_model() -> None:
    marian = random_model()
    again = to_marian(to_model(marian, 0))
    assert again.options == marian.options
    assert again.items.keys() == marian.items.keys()
    assert all(np.array_equal(again.items[name], marian.items[name]) for name in marian.items)


def test_eight_bits_stay_on_their_grid() -> None:
    marian = random_int8_model()
    again = to_marian(to_model(marian, 0)).in_int8(marian.alphas)
    for name, item in marian.items.items():
        found = again.items[name]
        assert np.array_equal(found[0], item[0]), name  # the codes, or the only row


@pytest.mark.parametrize("count", PUBLISHED)
def test_the_published_sizes_have_their_numbers_of_parameters(count: int) -> None:
    options = PUBLISHED[count]
    with torch.device("meta"):
        model = SmallTransformerForConditionalGeneration(config_of(options, 0))
    assert options_of(model.config) == options
    assert model.num_parameters() == count + options.hidden_size + 1  # the start token's


def test_other_models_are_refused() -> None:
    with refused(ValueError, "vocabularies of their own"):
        to_model(random_model(replace(SIZES, shared_vocabulary=False)), 0)
    config = config_of(SIZES, 0)
    for name, value in {"norm": "pre", "output_bias": False, "layer_norm_eps": 1e-5, "scale_scores": False}.items():
        with refused(ValueError, f"{name} must be"):
            options_of(type(config)(**config.to_dict() | {name: value}))
    with refused(ValueError, "pad_token_id must be the last token, 20"):
        options_of(type(config)(**config.to_dict() | {"pad_token_id": 3}))
    model = to_model(random_model(), 0)
    with refused(ValueError, "embedding of the start token 20 is not 0"), torch.no_grad():
        model.lm_head.weight[-1, 0] = 1
        to_marian(model)
    model = to_model(random_model(), 0)
    with refused(ValueError, "decoder_ff_logit_out_b", "not finite"), torch.no_grad():
        model.lm_head.bias[3] = torch.nan
        to_marian(model)
    model = to_model(random_model(), 0)
    model.lm_head.extra = torch.nn.Linear(2, 2)
    with refused(ValueError, "other parameters than its config says: 'lm_head.extra"):
        to_marian(model)


def test_a_missing_or_wrong_tensor_is_refused_before_memory_is_taken() -> None:
    marian = random_model(replace(SIZES, hidden_size=16))
    huge = replace(SIZES, hidden_size=2**14, intermediate_size=2**16, num_encoder_layers=64).to_yaml()
    with refused(ValueError, "tensors are missing"):
        to_model(replace(marian, options=huge), 0)
    with refused(ValueError, "the options say"):
        to_model(replace(marian, options=SIZES.to_yaml()), 0)


@pytest.mark.parametrize("seed", range(4))
def test_mozillas_engine_writes_the_same(seed: int, tmp_path: Path) -> None:
    python = engine_python()
    model = to_model(varied_model(seed), 0)
    write_bin(tmp_path / "model.bin", to_marian(model))
    (tmp_path / "vocab.spm").write_bytes(vocabulary("nmt_nfkc"))
    tokenizer = to_tokenizer(read_sentencepiece(tmp_path / "vocab.spm"))
    sentences = [line for line in lines() if 20 < len(line) < 100][seed::40]
    assert len(sentences) > 30
    expected = by_engine(tmp_path / "model.bin", tmp_path / "vocab.spm", sentences, python).texts
    assert len({*expected}) > 0.9 * len(sentences)
    for sentence, text in zip(sentences, expected, strict=True):
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"]
        found = model.generate(ids, max_new_tokens=longest_output(ids.shape[1]))[0, 1:].tolist()
        pieces = tokenizer.convert_ids_to_tokens([token for token in found if token])
        assert engine_text(pieces, tokenizer.unk_token) == text.strip(" ")
