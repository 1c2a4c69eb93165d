"""gruut's dictionaries: the entries of a package, and its links of letters and phonemes."""

# ruff: noqa: RUF001  (phones that look like other signs)

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from attnzoo.training.data.gruut import LinkedWord, read_gruut, read_linked_words
from attnzoo.training.studies import alignment_error
from attnzoo.training.train import main as train
from transformers import AutoTokenizer

import attnzoo
from tests.regular_language import SMALL, gold_links, write_dictionary

ROOT = Path(__file__).parents[2]


def written(word: str, pronunciation: str) -> str:
    """The links of a word of the regular language in gruut's form."""
    _, links = gold_links(word)
    phonemes = enumerate(pronunciation.split())
    return " ".join(f"{'|'.join(word[i] for i, j in sorted(links) if j == place)}}}{one}" for place, one in phonemes)


@pytest.fixture
def italian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the regular language with some odd entries; importing it fails."""
    package = tmp_path / "gruut_lang_it"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError")
    write_dictionary(tmp_path / "regular.dict")
    lines = (tmp_path / "regular.dict").read_text().splitlines()[1:]
    words = [(word.lower(), sounds) for word, sounds in (line.split("  ") for line in lines)]
    odd = [("a", "a"), ("6", "s ɛ i"), ("l'una", "l u n a"), ("Però", "p e ˈr ɔ"), ("tre-due", "t r e d u e")]
    links = [(word, written(word, sounds)) for word, sounds in words]
    links += [("Chi", "c|h}k i}i"), ("taxi", "t}t a}a x}k|s i}i"), ("hanno", "h}_ a}a n|n}n o}o"), ("è", "è}ɛ")]
    with closing(sqlite3.connect(package / "lexicon.db")) as connection, connection:
        connection.execute("CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY, word TEXT, phonemes TEXT)")
        connection.execute("CREATE TABLE g2p_alignments (id INTEGER PRIMARY KEY, word TEXT, alignment TEXT)")
        connection.executemany("INSERT INTO word_phonemes (word, phonemes) VALUES (?, ?)", words + odd)
        connection.executemany("INSERT INTO g2p_alignments (word, alignment) VALUES (?, ?)", links)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_words_of_letters_are_read(italian: Path) -> None:
    rows = read_gruut(Path("gruut-it"))["train"]
    assert rows["word"][-3:] == ["l'una", "Però", "tre-due"]
    assert rows["pronunciation"][-3:] == ["l u n a", "p e ˈr ɔ", "t r e d u e"]
    assert not {"a", "6"}.intersection(rows["word"])
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gruut-lang-xx"):
        read_gruut(Path("gruut-xx"))


def test_links_of_letters_and_phonemes(italian: Path) -> None:
    *_, chi, taxi, hanno = read_linked_words(Path("gruut-it"))
    assert chi == (["c", "h", "i"], ["k", "i"], {(0, 0), (1, 0), (2, 1)})
    assert taxi == (["t", "a", "x", "i"], ["t", "a", "k", "s", "i"], {(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)})
    assert hanno == (["h", "a", "n", "n", "o"], ["a", "n", "o"], {(1, 0), (2, 1), (3, 1), (4, 2)})


def test_a_trained_model_links_letters_and_phonemes(
    italian: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It finds the links of a regular language."""
    sets = [*SMALL, "task.data.path=gruut-it", "training.max_steps=200", "training.warmup_steps=10"]
    arguments = [str(ROOT / "configs" / "demo.yaml"), "--output", str(tmp_path / "run")]
    train([*arguments, *(f"--set={item}" for item in sets)])
    capsys.readouterr()
    alignment_error.main([str(tmp_path / "run" / "best")])
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("test, ")
    assert float(last.rsplit(maxsplit=2)[1]) < 10


def test_words_with_phonemes_of_their_own_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(attnzoo.model_path("attentional-rnn-g2p-it"))
    no, friend = LinkedWord([*"no"], ["n", "ɔ"], set()), LinkedWord([*"friend"], ["ˌf", "r", "ɛ"], set())
    assert alignment_error.with_known_phonemes([friend, no], tokenizer) == [no]
    assert capsys.readouterr().out == "friend is left out: no training word has ˌf\n"
