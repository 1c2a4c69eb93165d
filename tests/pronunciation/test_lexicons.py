"""The user's lexicon: its order before dictionary and model, its words with endings, and its phones."""

import gzip
from pathlib import Path

import pytest

from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.lexicons import require_phones, user_lexicon
from tests.factory import refused


def test_lexicon_before_dictionary_before_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("cat\tM AY N\n\nzyx\tZ IH K S\nzyx\tZ AY K S\nNATO\tN EY T OW\n", encoding="utf-8")
    mapping = {"cat": "M AY N", "zyx": ["Z IH K S", "Z AY K S"], "NATO": "N EY T OW"}
    for lexicon in (file, mapping):
        pronounce = Pronouncer(lexicon=lexicon)
        found = pronounce("Cat dog blorp zyx NATO zyx's dog's")
        sources = ["lexicon", "dictionary", "model", "lexicon", "lexicon", "lexicon", "dictionary"]
        assert [word.source for word in found] == sources
        assert [found[place].phonemes for place in (0, 3, 4, 5)] == [
            "M AY N",
            "Z IH K S",
            "N EY T OW",
            "Z IH K S IH0 Z",
        ]
        assert [variant.phonemes for variant in found[3].variants] == ["Z IH K S", "Z AY K S"]
        assert 0 < (found[2].confidence or 0) < 1
        assert found[0].confidence == found[1].confidence == 1
    alone = Pronouncer(lexicon=mapping, dictionary=False)
    assert [word.source for word in alone("cat dog x")] == ["lexicon", "model", "rules"]


def test_a_lexicon_has_its_words_with_endings_too(listed: Pronouncer) -> None:
    """Also if the dictionary lists them: john's, it'd, i'll."""
    mine = Pronouncer(lexicon={"John": "JH AA1 L", "it": ["IH1 K", "IY1"], "rosé": "R OW2 Z EY1", "GPU": "G UW1"})
    found = mine.words(["John's", "JOHN’S", "John'll", "it'd", "it've", "it're", "Johns'", "rosés", "GPU's", "GPUs"])
    assert [word.phonemes for word in found] == [
        *["JH AA1 L Z"] * 2,
        "JH AA1 L AH0 L",
        *("IH1 K AH0 D", "IH1 K AH0 V", "IH1 K ER0"),
        listed.words(["Johns'"])[0].phonemes,  # the plural is another word
        "R OW2 Z EY1 Z",
        *["G UW1 Z"] * 2,
    ]
    assert [variant.phonemes for variant in found[3].variants] == ["IH1 K AH0 D", "IY1 D"]
    assert mine("John's")[0].source == "lexicon"
    ipa = Pronouncer(phones="ipa", lexicon={"blorp": "blɔɹp", "zy": "zaɪ"})
    assert [word.phonemes for word in ipa.words(["blorp's", "blorp'd", "zy'll"])] == ["blɔɹps", "blɔɹpəd", "zaɪl"]


def test_an_entry_may_be_several_words() -> None:
    """In a text the longest entry is used, with any white space between its words, there and in the lexicon."""
    mine = Pronouncer(lexicon={"New": "N", "new  york ": "N UW1 Y", "New York City": "S IY1", "C#": "S IY1 SH"})
    found = mine("New York’s new\nyork  NEW YORK CITY, new, C# C.")
    assert [(word.text, word.phonemes, word.space) for word in found] == [
        ("New York’s", "N UW1 Y Z", " "),
        ("new\nyork", "N UW1 Y", "  "),
        ("NEW YORK CITY", "S IY1", ""),
        (",", ",", " "),
        ("new", "N", ""),
        (",", ",", " "),
        ("C#", "S IY1 SH", " "),
        ("C", "S IY1", ""),
        (".", ".", ""),
    ]


def test_an_entry_may_have_signs_beside_other_signs() -> None:
    mine = Pronouncer(lexicon={"C#": "S IY1 SH", "Yahoo!": "Y AA1", ".NET": "D AA1 T"})
    found = mine("(C#), “.NET”; Yahoo!?! So...")
    assert [word.text for word in found] == ["(", "C#", "),", "“", ".NET", "”;", "Yahoo!", "?!", "So", "..."]
    assert [word.source for word in found if word.text in mine.lexicon] == ["lexicon"] * 3


def test_an_entry_of_several_words_is_used_in_compounds_and_with_other_capitals() -> None:
    mine = Pronouncer(lexicon={"3D": "TH R", "New York": "N UW1", "C#": "S IY1", "U.S. Army": "AA1 R", "year": "Y"})
    found = mine("3D-printed New York\u2011based non-New York's C#-like 5-year-old New York-5 the U.S. army")
    assert [(word.text, word.phonemes) for word in found if word.text not in ("-", "5", "the")] == [
        ("3D-printed", "TH R P R IH1 N T IH0 D"),
        ("New York\u2011based", "N UW1 B EY1 S T"),
        ("non-New York's", "N AA1 N N UW1 Z"),
        ("C#-like", "S IY1 L AY1 K"),
        ("year-old", "Y OW1 L D"),
        ("New York", "N UW1"),
        ("U.S. army", "AA1 R"),
    ]


@pytest.mark.parametrize("text", ["cat", "cat\t", "\tK AE T"])
def test_a_lexicon_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text(f"dog\tD AO G\n{text}\n")
    with refused(ValueError, "mine.tsv, line 2", repr(text)):
        Pronouncer(lexicon=tmp_path / "mine.tsv")
    with refused(ValueError, "'cat' needs a pronunciation", "[]"):
        Pronouncer(lexicon={"cat": []})
    with pytest.raises(FileNotFoundError):
        Pronouncer(lexicon=tmp_path / "none.tsv")
    for content, what in {
        "café\tK AE F EY\n".encode("latin-1"): "is not UTF-8",
        "café\tK AE F EY\n".encode("utf-16"): "is not UTF-8",
        b"PK\x03\x04\xff": "is a zip file or a workbook, not text; give a text file in UTF-8",
        gzip.compress(b"cat"): "is compressed by gzip, not text",
        b"\x7fELF\0\xff": "is a binary file, not text",
    }.items():
        (tmp_path / "other").write_bytes(content)
        with refused(ValueError, f"other {what}"):
            Pronouncer(lexicon=tmp_path / "other")
    for key in (5, "", None):
        with refused(ValueError, f"must be texts that are not empty, got {key!r} with 'K'"):
            Pronouncer(lexicon={key: "K"})  # type: ignore[dict-item]


def test_a_lexicon_is_of_the_phones_that_are_asked_for(tmp_path: Path) -> None:
    with refused(ValueError, "the lexicon's word 'blorp': 'OH' in 'B L OH R P' is not a phone of phones='arpabet'"):
        Pronouncer(lexicon={"blorp": ["B L AO1 R P", "B L OH R P"]})
    (tmp_path / "table.tsv").write_text("word\tphonemes\tsource\nblorp\tB L AO1 R P\tmodel\n")
    with refused(ValueError, "line 1: expected a word, a tab and its pronunciation"):
        Pronouncer(lexicon=tmp_path / "table.tsv")
    (tmp_path / "header.tsv").write_text("Word\tPronunciation\nblorp\tB L AO1 R P\n")
    for phones in ("arpabet", "ipa"):
        with refused(ValueError, "header.tsv, line 1: 'Word\\tPronunciation' looks like a header", "delete this line"):
            Pronouncer(phones=phones, lexicon=tmp_path / "header.tsv")
    for wrong in (["blorp"], {"blorp": None}, {"blorp": 3}):
        with refused(ValueError, "blorp"):
            Pronouncer(lexicon=wrong)  # type: ignore[arg-type]
    for key, text in (("O’Blorp", "O'Blorp"), ("cafébl", "cafébl"), ("cafébl", "cafébl")):
        mine = Pronouncer(lexicon={key: "B L AO1 R P"}, dictionary=False)
        assert [word.source for word in (*mine(text), *mine.words([text]))] == ["lexicon", "lexicon"]


@pytest.mark.parametrize(
    ("phones", "given", "wrong", "remedy"),
    [
        ("arpabet", "B1 L AO1", "B1", "; write it in ARPABET"),
        ("arpabet", "B L AO12", "AO12", "; write it in ARPABET"),
        ("arpabet", "blˈɔɹp", "blˈɔɹp", "choose that, or write it in ARPABET"),
        ("kokoro", "B L AO1 R P", "B", "phones='arpabet': choose that, or write it in Kokoro's phones"),
        ("kokoro", "ˈblɔɹp", "ˈb", "phones='ipa'"),
        ("kokoro", "həˈloʊ", "ˈl", "phones='ipa'"),
        ("ipa", "B L AO1 R P", "B", "phones='arpabet'"),
        ("ipa", "blˈɔɹp", "blˈ", "phones='kokoro': choose that, or write it in IPA"),
    ],
)
def test_a_lexicon_of_other_phones_is_refused(phones: str, given: str, wrong: str, remedy: str) -> None:
    message = f"the lexicon's word 'blorp': {wrong!r} in {given!r} is not a phone of phones={phones!r}"
    with refused(ValueError, message, remedy):
        require_phones(user_lexicon({"blorp": given}, phones), phones)


@pytest.mark.parametrize("given", ["ʃɑ̃ˈtɛl", "ˈkæt", "ʌnˈʌðɚ", "n̩ˈdiː", "ɪkˈstɹiːm pliːz"])
def test_ipa_is_accepted(given: str) -> None:
    require_phones(user_lexicon({"blorp": given}, "ipa"), "ipa")
