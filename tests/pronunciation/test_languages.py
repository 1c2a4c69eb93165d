"""Several languages in one model: tags name dictionaries, the script of a word chooses, and texts lose nothing."""

import itertools
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training.make_data import languages as codes
from tokenizers import Regex, normalizers
from transformers import pipeline

from attnzoo import languages
from attnzoo.cli import main
from attnzoo.export import to_onnx
from attnzoo.languages import dictionaries_among, dictionaries_of, script_of
from attnzoo.pronunciation import Pronouncer, phonemize, phonemizer
from tests.factory import refused
from tests.pronunciation.odd_strings import ODD_STRINGS
from tests.pronunciation.several_languages import SOUNDS, save_model_of_languages

KNOWN = ["ben_beng", "ben_beng_dhaka", "deu_latn", "hbs_cyrl", "hbs_latn", "hun_latn", "hye_armn_e", "hye_armn_w"]
KNOWN += ["ind_latn", "jpn_hira", "jpn_kana", "msa_latn", "nob_latn", "nor_latn", "por_latn_bz", "por_latn_po"]
KNOWN += ["spa_latn_ca", "spa_latn_la"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model_of_languages(tmp_path_factory.mktemp("languages"))


def sounds_of(name: str, word: Iterable[str]) -> str:
    return "".join(SOUNDS[name][letter] for letter in word)


@pytest.mark.parametrize(
    ("language", "named"),
    [
        ("hu", "hun_latn"),
        ("hun", "hun_latn"),
        ("HU-hu", "hun_latn"),
        ("hun_latn_broad_filtered", "hun_latn"),
        ("de-Latn-AT", "deu_latn"),
        ("pt-BR", "por_latn_bz"),
        ("pt_PT", "por_latn_po"),
        ("es-419", "spa_latn_la"),
        ("spa_latn_ca", "spa_latn_ca"),
        ("sr", "hbs_cyrl hbs_latn"),  # a member of the macrolanguage Serbo-Croatian
        ("sr-Cyrl", "hbs_cyrl"),
        ("hr-Latn-HR", "hbs_latn"),
        ("id", "ind_latn"),  # has a dictionary of its own, apart from its macrolanguage's
        ("nb", "nob_latn"),
        ("no", "nor_latn"),
        ("ja", "jpn_hira jpn_kana"),
        ("bn", "ben_beng"),  # not the dialect's
    ],
)
def test_a_tag_or_a_dictionary_names_dictionaries(language: str, named: str) -> None:
    assert dictionaries_of(language, KNOWN) == {name.split("_")[1]: name for name in named.split()}


@pytest.mark.parametrize(
    ("language", "fragments"),
    [
        ("zh-Hans", ["'zh-Hans'", "no such language", "bn, de, es, hbs, hu, hy, id, ja, ms, nb, no, pt"]),
        ("hu-Cyrl", ["no such script", "hun_latn"]),
        ("pt", ["por_latn_bz, por_latn_po", "name one"]),
        ("pt-AO", ["por_latn_bz, por_latn_po"]),
        ("hungarian", ["language must be a tag such as hu", "'hungarian'"]),
        ("", ["language must be"]),
        (5, ["language must be"]),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(language: str, fragments: list[str]) -> None:
    with refused(ValueError, *fragments):
        dictionaries_of(language, KNOWN)


def test_dictionaries_are_told_from_phones() -> None:
    assert dictionaries_among([*KNOWN, "a", "d͡ʒ", "us", "silverus", "ABC_latn", "hun"]) == KNOWN


def test_scripts_are_those_of_unicode() -> None:
    """The property Script of Onigurama's regular expressions is an independent reference."""
    scripts = {"arab": "Arabic", "armn": "Armenian", "beng": "Bengali", "cyrl": "Cyrillic", "deva": "Devanagari"}
    scripts |= {"geor": "Georgian", "grek": "Greek", "gujr": "Gujarati", "hang": "Hangul", "hebr": "Hebrew"}
    scripts |= {"hira": "Hiragana", "java": "Javanese", "kana": "Katakana", "khmr": "Khmer", "knda": "Kannada"}
    scripts |= {"laoo": "Lao", "latn": "Latin", "mlym": "Malayalam", "mong": "Mongolian", "mymr": "Myanmar"}
    scripts |= {"syrc": "Syriac", "taml": "Tamil", "telu": "Telugu", "tfng": "Tifinagh", "thaa": "Thaana"}
    scripts |= {"thai": "Thai", "tibt": "Tibetan", "hani": "Han", "ethi": "Ethiopic", "guru": "Gurmukhi"}
    letters = [
        one
        for one in map(chr, range(0x10000))
        if unicodedata.category(one) in ("Lu", "Ll", "Lt", "Lo") and unicodedata.normalize("NFKC", one) == one
    ]
    for code, name in scripts.items():
        others = normalizers.Replace(Regex(rf"\p{{{name}}}"), "").normalize_str("".join(letters))
        differ = {one for one in {*letters}.difference(others) ^ {x for x in letters if script_of(x) == code}}
        assert len(differ) <= (5 if code == "latn" else 0), (code, differ)  # some Latin letters are named "turned"
    assert [script_of(text) for text in ("'здраво", "42!", "")] == ["cyrl", "", ""]


def test_every_language_reads_by_its_dictionary(folder: Path) -> None:
    """A letter sounds as in the dictionary that the language names, though others have the same letter."""
    for name, sounds in SOUNDS.items():
        pronounce = Pronouncer(language=name, model=folder)
        words = ["".join(word) for word in itertools.product(sounds, repeat=2) if script_of("".join(word))]
        for word, found in zip(words, pronounce.words(words), strict=True):
            assert (found.phonemes, found.source) == (sounds_of(name, word), "model"), (name, word)
            assert found.variants[0].phones == tuple(sounds[letter] for letter in word)


def test_the_pipeline_reads_no_word_without_its_dictionary(folder: Path) -> None:
    pipe: Any = pipeline("grapheme-to-phoneme", model=str(folder))  # type: ignore[call-overload]  # ours
    assert pipe("⟦hun_latn⟧sos")[0]["pronunciation"].split() == list(sounds_of("hun_latn", "sos"))
    with refused(ValueError, "'sos' must begin with the dictionary", "such as '⟦bod_tibt⟧sos'"):
        pipe("sos")


def test_the_script_of_each_word_chooses_the_dictionary(folder: Path) -> None:
    serbian, cyrillic = (Pronouncer(language=one, model=folder) for one in ("sr", "sr-Cyrl"))
    assert serbian.phonemize("Сао, sos!") == f"{sounds_of('hbs_cyrl', 'сао')}, {sounds_of('hbs_latn', 'sos')}!"
    assert [word.source for word in cyrillic.words(["сао", "sos"])] == ["model", "unknown"]
    with refused(ValueError, "'sos' is in another script than hbs_cyrl"):
        cyrillic.words(["sos"], on_unknown="raise")
    korean = Pronouncer(language="ko", model=folder).words(["소"])[0]
    assert korean.phonemes == sounds_of("kor_hang", unicodedata.normalize("NFD", "소"))
    (word,) = serbian.words(["сао"], alignments=True)
    (pair,) = word.alignments
    assert pair is not None
    assert (pair.source_words, pair.weights.shape) == (list("сао"), (3, 3))  # without the dictionary


def test_a_text_is_words_and_punctuation_without_english_rules(folder: Path) -> None:
    pronounce = Pronouncer(language="hu", model=folder)
    text = "  A so! 42 % «sós» Dr. oo-sa,\n$5 S. сао 👍🏽"
    words = pronounce(text)
    assert "".join(word.text + word.space for word in words) == text.lstrip()
    known = {word.text: word.phonemes for word in words if word.source == "model"}
    assert known == {one: sounds_of("hun_latn", one.lower().replace("-", "")) for one in ("A", "so", "S")} | {
        "sós": sounds_of("hun_latn", "sos"),  # the accent is no letter of this model
        "oo-sa": f"{sounds_of('hun_latn', 'oo')} {sounds_of('hun_latn', 'sa')}",
    }
    assert {w.text for w in words if w.source == "unknown"} == {"42", "%", "Dr", "$5", "сао", "👍🏽"}
    with pytest.warns(UserWarning, match=r"^left out, since they have no pronunciation: '42', '%', 'Dr', '\$5'"):
        assert pronounce.phonemize(text) == "ɒ ʃo! «ʃoʃ» . oo ʃɒ,\nʃ."
    with pytest.warns(UserWarning, match="'42'") as warned:
        assert phonemize(text, language="hu", model=folder) == "ɒ ʃo! «ʃoʃ» . oo ʃɒ,\nʃ."
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="'42'"):
        phonemizer.phonemize(text, "hu", model=folder)
    read = Pronouncer(language="hu", model=folder, lexicon={"42": "ɒ", "%": "o"})
    assert read.phonemize("42 % 42-so", on_unknown="skip") == "ɒ o ɒ-ʃo"
    spaced = phonemizer.Separator(phone=" ", word=" | ")
    as_espeak = phonemizer.phonemize("A oo-sa!", "hu", separator=spaced, strip=True, model=folder)
    assert as_espeak == " | ".join(" ".join(SOUNDS["hun_latn"][one] for one in word) for word in ("a", "oo", "sa"))
    tibetan = Pronouncer(language="bo", model=folder)("ས་ས། ས")
    assert [word.text for word in tibetan] == ["ས་ས", "།", "ས"]
    for odd, words in zip(ODD_STRINGS, pronounce(ODD_STRINGS, num_beams=1), strict=True):
        assert "".join(word.text + word.space for word in words) == re.sub(
            "^[\\s\u200b]+", "", unicodedata.normalize("NFC", odd)
        )


def test_an_exported_model_and_the_command_read_languages(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Pronouncer(language="sr", model=folder).word_model.engine
    exported = to_onnx(engine.model, tmp_path / "onnx", engine.tokenizer)
    words = ["сао", "sos"]
    assert Pronouncer(language="sr", model=exported).words(words, num_beams=1) == Pronouncer(
        language="sr", model=folder
    ).words(words, num_beams=1)
    main(["pronounce", "--model", str(folder), "--language", "hu", "so"])
    assert capsys.readouterr().out == "so\tʃo\n"
    with refused(SystemExit, "is a model of several languages: name one of them with language: bo, hbs, hu"):
        main(["pronounce", "--model", str(folder), "so"])


def test_a_language_needs_a_model_of_several_and_no_accent(folder: Path) -> None:
    with refused(ValueError, "is a model of several languages", "language: bo, hbs, hu, ko, pt"):
        Pronouncer(model=folder)
    with refused(ValueError, "is not a model of several languages, got language='it'"):
        Pronouncer(language="it", model="attentional-rnn-g2p-it")
    for options in ({"accent": "en-us"}, {"phones": "arpabet"}):
        with refused(ValueError, "accent and phones are for English", "language='hu'"):
            Pronouncer(language="hu", model=folder, **options)
    with refused(ValueError, "leave out dictionary=True"):
        Pronouncer(language="hu", model=folder, dictionary=True)
    own = Pronouncer(language="hu", model=folder, lexicon={"so": "sɔ"})
    assert own.phonemize("so os") == "sɔ oʃ"


# Words and their pronunciations in Wiktionary, without stress and syllables.
OF_WIKTIONARY = {
    "hu": ("szia", "sijɒ"),
    "pl": ("dziękuję", "d͡ʑɛŋkujɛ"),
    "ka": ("გამარჯობა", "ɡamard͡ʒoba"),
    "el": ("καλημέρα", "kalimeɾa"),
    "hi": ("नमस्ते", "nəməst̪eː"),
    "ko": ("한국", "ha̠ːnɡuk̚"),
    "ja": ("ありがとう", "a̠ɾʲiɡa̠to̞ː"),
    "uk": ("мова", "mɔʋɐ"),
    "pt-BR": ("obrigado", "obɾiɡadu"),
}


@pytest.mark.parametrize("language", OF_WIKTIONARY)
def test_the_shipped_model_reads_seven_scripts(language: str) -> None:
    word, pronunciation = OF_WIKTIONARY[language]
    assert phonemize(word, language=language) == pronunciation
    assert phonemizer.phonemize(word, language, strip=True, with_stress=True) == pronunciation


def test_the_table_of_codes_is_that_of_its_package(tmp_path: Path) -> None:
    pytest.importorskip("iso639")  # iso639-lang
    codes.main([str(tmp_path / "languages.tsv")])
    listed = Path(languages.__file__).with_name("languages.tsv")
    assert (tmp_path / "languages.tsv").read_bytes() == listed.read_bytes()
