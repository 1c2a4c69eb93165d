"""Mozilla's engine and Marian itself write what the model writes, on random weights: every one of 200 texts.

No text has pieces of bytes or unknown ones, which the engines print in their own ways.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attnzoo.firefox.browser_arithmetic import greedy, in_browser_arithmetic, recorded_alphas
from attnzoo.firefox.engine import LONGEST, by_engine, engine_text, longest_output
from attnzoo.firefox.marian_files import read_marian, write_bin
from attnzoo.firefox.marian_model import MarianModel
from attnzoo.firefox.parameters import to_marian, to_model
from attnzoo.firefox.sentencepiece_file import Kind, Piece, parse, write_sentencepiece
from attnzoo.firefox.sentencepiece_tokenizer import with_exact_sums
from attnzoo.firefox.student_options import StudentOptions
from attnzoo.firefox.students import student_tokenizer
from tests.firefox.engines import PYMARIAN, by_marian, engine_python
from tests.firefox.models import TINY, VARIED, varied_model
from tests.firefox.vocabularies import lines, vocabulary

COUNT = 200
SATURATES_ON = ("avx2", "ssse3")  # backends of Mozilla's engine
# The bias of the end, with which some texts end before the longest possible length.
SIZES = {"small": (VARIED, 4.0), "tiny": (TINY, 4.0)}


class Trial:
    """A model and its vocabulary in files, and what they are to translate."""

    def __init__(self, folder: Path, options: StudentOptions, end: float) -> None:
        self.path, self.vocabulary = folder / "model.bin", folder / "vocab.spm"
        file = with_exact_sums(parse(memoryview(vocabulary("nmt_nfkc"))))
        others = [Piece(f"▁q{i}q", -20.0, Kind.NORMAL) for i in range(len(file.pieces), options.target_vocab_size)]
        file = replace(file, pieces=[*file.pieces, *others])
        write_sentencepiece(self.vocabulary, file)
        self.tokenizer = student_tokenizer(file)
        self.marian = varied_model(options=options)
        bias = self.marian.floats("decoder_ff_logit_out_b")
        bias[0, [piece.kind != Kind.NORMAL for piece in file.pieces]] = -100
        bias[0, 0] = end
        short = dict.fromkeys(line for line in lines() if 10 < len(line) < 30)
        self.sentences = [line for line in short if len(self.tokenizer(line)["input_ids"]) < 18][:COUNT]
        self.rows = self.tokenizer(self.sentences)["input_ids"]
        assert len(self.rows) == COUNT

    def write(self, marian: MarianModel) -> None:
        write_bin(self.path, marian)

    def by_mozilla(self) -> tuple[str, list[str]]:
        """The engine's backend, and its texts."""
        return by_engine(self.path, self.vocabulary, self.sentences, engine_python())

    def text(self, ids: list[int]) -> str:
        return engine_text(self.tokenizer.convert_ids_to_tokens(ids), self.tokenizer.unk_token)

    def generated(self, model: Any, more: int, **options: Any) -> list[list[int]]:
        """The ids that the model writes for every row, all rows of a length at once, at most 2 n + ``more``."""
        found: dict[int, list[int]] = {}
        for size in sorted({*map(len, self.rows)}):
            places = [i for i, row in enumerate(self.rows) if len(row) == size]
            ids = torch.tensor([self.rows[i] for i in places])
            longest = min(2 * size + more, LONGEST)
            rows = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=longest, **options)
            for place, row in zip(places, rows[:, 1:].tolist(), strict=True):
                found[place] = row[: row.index(0)] if 0 in row else row  # 0 ends a text
        return [found[i] for i in range(len(self.rows))]


@pytest.fixture(params=SIZES)
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    engine_python()  # without one the trial is not made either
    return Trial(tmp_path, *SIZES[request.param])


def test_both_engines_write_what_the_model_writes(trial: Trial) -> None:
    engine_python(PYMARIAN)
    trial.write(trial.marian)
    model = to_model(trial.marian, 0)
    found = trial.generated(model, more=4, num_beams=1)
    _, texts = trial.by_mozilla()
    assert len({*texts}) > 0.7 * COUNT
    assert [trial.text(row) for row in found] == [text.strip(" ") for text in texts]
    ended = sum(len(row) < longest_output(len(source)) for row, source in zip(found, trial.rows, strict=True))
    assert 0.05 * COUNT < ended < 0.95 * COUNT
    sources = [trial.tokenizer.convert_ids_to_tokens(row[:-1]) for row in trial.rows]
    by_beams = {}
    for beams in (1, 4):
        found = trial.generated(model, more=0, num_beams=beams, length_penalty=0.0)
        by_beams[beams] = [trial.tokenizer.convert_ids_to_tokens(row) for row in found]
        assert by_beams[beams] == by_marian(trial.path, trial.vocabulary, sources, beams)
    assert sum(one != other for one, other in zip(*by_beams.values(), strict=True)) > 0.3 * COUNT


def test_mozillas_engine_computes_in_this_arithmetic(trial: Trial) -> None:
    """In eight bits, with its own backend's sums; with the sums of other backends some texts are different."""
    count = COUNT if trial.marian.floats("Wemb").shape[0] < 32_000 else 20  # a text of the large one takes seconds
    trial.sentences, trial.rows = trial.sentences[:count], trial.rows[:count]
    trial.write(to_marian(model := to_model(trial.marian, 0)).in_int8(recorded_alphas(model, trial.rows[:10])))
    marian = read_marian(trial.path)
    backend, texts = trial.by_mozilla()
    assert len({*texts}) > 0.7 * count

    def equal(saturates: bool, count: int) -> int:
        computed = in_browser_arithmetic(to_model(marian, 0), marian, saturates)
        found = [trial.text(greedy(computed, row)) for row in trial.rows[:count]]
        return sum(text == other.strip(" ") for text, other in zip(found, texts, strict=False))

    saturates = backend in SATURATES_ON
    assert equal(saturates, count) == count
    assert equal(not saturates, 20) < 20
