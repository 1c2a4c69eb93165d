"""BPE-dropout, compared with the tokenizer's own byte pairs; its probabilities, and a training with it."""

import random
from pathlib import Path

import pytest
from attnzoo.training.recipe import load_recipe
from attnzoo.training.tasks.bpe_dropout import COPIES, BPEDropout, segment
from attnzoo.training.tasks.summarization import Summarization, SummaryData
from attnzoo.training.tasks.translation import Translation, TranslationData
from transformers import AutoTokenizer

from tests.aligning.toy_language import corpus
from tests.regular_language import SMALL
from tests.training.runs import overrides, train_recipe

TEXTS = [
    ("The cats' café, now: 12 of them", "Das Café der Katzen.  Nun"),
    ("now the cat and the hat", "nun die Katze und der Hut"),
    ("ΑΒΓ now\tthen", "αβγ, ἄ"),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = "".join(f"{source}\t{target}\n" for source, target in TEXTS for _ in range(3)).replace("\tthen", " then")
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.tsv").write_text("source\ttarget\n" + rows)
    return tmp_path


def test_without_dropout_it_is_the_tokenizer_and_with_it_the_text_is_the_same(data: Path) -> None:
    task = Translation(TranslationData(path=str(data), vocabulary_size=90))
    tokenizer = task.make_tokenizer()
    rows = {"source": [source for source, _ in TEXTS], "target": [target for _, target in TEXTS]}
    plain = task.encoder(tokenizer)(rows)
    examples = BPEDropout(tokenizer, 0.0)(rows, is_cut=False)
    assert examples == {name: [ids for ids in plain[name] for _ in range(COPIES)] for name in plain}
    dropped = BPEDropout(tokenizer, 0.3)(rows, is_cut=False)
    assert dropped == BPEDropout(tokenizer, 0.3)(rows, is_cut=False)
    for name, column in (("input_ids", "source"), ("labels", "target")):
        for number, ids in enumerate(dropped[name]):
            text = tokenizer.decode(ids, skip_special_tokens=True)
            assert text == tokenizer.decode(plain[name][number // COPIES], skip_special_tokens=True), column
        assert len({tuple(ids) for ids in dropped[name][:COPIES]}) > COPIES / 2
    assert BPEDropout(tokenizer, 0.3)({"source": ["☃ now"], "target": ["now"]}, is_cut=False)["input_ids"][0][1:2] == [
        tokenizer.unk_token_id
    ]


def test_probabilities_of_segmentations() -> None:
    """Merges for "abc": (a, b) first, then (ab, c); and (b, c), learned last."""
    ranks = {("a", "b"): 0, ("ab", "c"): 1, ("b", "c"): 2}
    draw, count, dropped = random.Random(0), 40_000, 0.3
    found = [tuple(segment("abc", ranks, dropped, draw)) for _ in range(count)]
    kept = 1 - dropped
    expected = {
        ("abc",): kept * kept,
        ("ab", "c"): kept * dropped,
        ("a", "bc"): dropped * kept,  # the earlier pair is left out; none joins "a" and "bc"
        ("a", "b", "c"): dropped * dropped,
    }
    assert set(found) == set(expected)
    for subwords, probability in expected.items():
        error = (probability * (1 - probability) / count) ** 0.5
        assert found.count(subwords) / count == pytest.approx(probability, abs=4 * error)
    assert segment("abc", ranks, 0.0, draw) == ["abc"]
    assert segment("abc", ranks, 1.0, draw) == ["a", "b", "c"]


def test_a_cut_source_keeps_its_end(data: Path) -> None:
    columns = {"source_column": "source", "target_column": "target"}
    task = Summarization(
        SummaryData(path=str(data), vocabulary_size=90, max_source_tokens=5, bpe_dropout=0.5, **columns)
    )
    tokenizer = task.make_tokenizer()
    examples = task.training_examples(tokenizer)
    assert len(examples) == COPIES * len(task.splits["train"])
    for ids in examples["input_ids"]:
        assert len(ids) <= 5
        assert ids[-1] == tokenizer.eos_token_id


def test_a_training_with_it_and_what_is_refused(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("runs")
    sources, targets, _ = corpus(60, seed=0)
    for split, start, end in (("train", 0, 40), ("validation", 40, 50), ("test", 50, 60)):
        rows = zip(sources[start:end], targets[start:end], strict=True)
        lines = (f"{' '.join(source)}\t{' '.join(target)}\n" for source, target in rows)
        (data / f"{split}.tsv").write_text("source\ttarget\n" + "".join(lines))
    columns = {"source_column": "source", "target_column": "target"}
    sets = [*SMALL, *overrides("task.data", path=str(data), vocabulary_size=90, bpe_dropout=0.1, **columns)]
    sets += [*overrides("model", embedding_size=32), *overrides("training", max_steps=2, evaluations=1)]
    best = train_recipe("attentional_rnn_multi30k", tmp_path / "run", sets) / "best"
    tokenizer = AutoTokenizer.from_pretrained(best)
    assert tokenizer.backend_tokenizer.model.dropout is None
    assert load_recipe(best / "recipe.yaml").task.data.bpe_dropout == 0.1
    (tmp_path / "links").write_text("\n" * 40)
    for said, setting in (
        (r"needs one example for a row; set task\.data\.bpe_dropout=0", f"training.alignment_links={tmp_path}/links"),
        ("bpe_dropout must be at least 0 and below 1, got 1", "task.data.bpe_dropout=1"),
    ):
        with pytest.raises(SystemExit, match=said):
            train_recipe("attentional_rnn_multi30k", tmp_path / "refused", [*sets, setting])
