"""Texts with uppercase letters in compounds, apostrophes, Unicode's forms, signs, markup and code."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnzoo.pronunciation import Pronouncer
from attnzoo.pronunciation.compounds import parts_of_compound
from attnzoo.pronunciation.text import tokenize

ACCENTS = [("en-us", "arpabet"), ("en-us", "kokoro"), ("en-gb", "kokoro")]


@pytest.fixture(scope="module", params=ACCENTS, ids="-".join)
def listed_in(request: pytest.FixtureRequest) -> Pronouncer:
    return Pronouncer(*request.param)


def phonemes(pronounce: Pronouncer, text: str) -> list[str | None]:
    return [word.phonemes for word in pronounce(text, num_beams=1) if word.source != "punctuation"]


def said(text: str) -> str:
    """The spoken words of a text, and its punctuation; a question mark for unknown words."""
    return " ".join(" ".join(one.parts) or ("?" if one.kind == "unknown" else one.text) for one in tokenize(text))


@pytest.mark.parametrize(
    ("compound", "parts"),
    [
        *(("GPL-compatible", "GPL compatible"), ("US-led", "US led"), ("GPU-based", "GPU based")),
        *(("non-GPL", "non GPL"), ("DIY-style", "DIY style"), ("LGBTQ-friendly", "LGBTQ friendly")),
        *(("HTML-only", "HTML only"), ("USB-C", "USB C"), ("UK-based", "UK based"), ("CPU-bound", "CPU bound")),
        *(("ex-FBI's", "ex FBI's"), ("NATO-led", "NATO led"), ("IT\u2010savvy", "IT savvy"), ("PCs-only", "PCs only")),
        *(
            ("macOS", "Mack OS"),
            ("mRNA", "m RNA"),
            ("iOS", "i OS"),
            ("PyTorch", "Py Torch"),
            ("IPv", "IP v"),
            ("OAuth", "O Auth"),
            ("HTTPServer", "HTTP Server"),
        ),
        *(("VSCode", "VS Code"), ("GitLab", "Git Lab"), ("README", "Reed me"), ("camelCase", "camel Case")),
        *(("snake_case", "snake case"), ("MAX_GPUS_USED", "MAX GPUS USED"), ("getURLs", "get URLs")),
    ],
)
def test_each_part_of_a_compound_is_read_as_by_itself(compound: str, parts: str, listed_in: Pronouncer) -> None:
    assert phonemes(listed_in, f"blorp {compound}")[1] == " ".join(map(str, phonemes(listed_in, f"blorp {parts}")[1:]))


@pytest.mark.parametrize(
    ("compound", "parts"),
    [
        *(("aiohttp", "AIO HTTP"), ("pyversions", "pie versions"), ("zoneinfo", "zone info"), ("tzfile", "TZ file")),
        *(("githubusercontent", "git hub user content"), ("jsonschema", "jason schema"), ("urllib", "URL lib")),
        *(("fstype", "FS type"), ("bfloat", "B float"), ("mmap", "M map"), ("mtu", "MTU"), ("Unittest", "unit test")),
    ],
)
def test_a_compound_in_small_letters_is_taken_apart(compound: str, parts: str, listed_in: Pronouncer) -> None:
    assert phonemes(listed_in, f"blorp {compound}")[1] == " ".join(map(str, phonemes(listed_in, f"blorp {parts}")[1:]))


def test_a_listed_word_or_an_unknown_part_is_not_taken_apart(listed: Pronouncer) -> None:
    assert phonemes(listed, "understand") == [" ".join(listed.dictionary["understand"][0].phones)]
    assert phonemes(Pronouncer(lexicon={"aiohttp": "EY1"}), "aiohttp") == ["EY1"]
    for word in ("blorphandle", "walkable", "handle", "tmesis"):
        assert parts_of_compound(word, lambda part: False) == ()
    parts_of_compound("get" + "q" * 300, lambda part: pytest.fail("the time would grow with the square of the letters"))


def test_a_listed_compound_and_a_name_with_two_capitals_are_words(listed: Pronouncer) -> None:
    for word in ("McDonald", "LeBron", "X-ray", "T-shirt"):
        entries = listed.dictionary[word.lower()]
        assert phonemes(listed, f"a {word} here")[1] == " ".join(entries[0].phones)
    mine = Pronouncer(lexicon={"GPL": "G", "OAuth": "OW0"})
    assert phonemes(mine, "GPL-only OAuth") == ["G OW1 N L IY0", "OW0"]


def test_a_word_with_its_apostrophe_is_that_of_the_dictionary(listed: Pronouncer) -> None:
    for word in ("goin'", "nothin’", "doin'", "bein'", "gettin'", "Arkansas'", "'frisco", "’kay", "'course", "ol'"):
        entries = listed.dictionary[word.lower().replace("’", "'")]
        assert phonemes(listed, f"it is {word} now")[2] == " ".join(entries[0].phones), word
    assert phonemes(listed, "th' jumpin' man") == ["DH AH0", "JH AH1 M P IH0 N", "M AE1 N"]  # neither is listed
    assert phonemes(Pronouncer("en-gb", "kokoro"), "He's goin'")[1] == "ɡˈQɪn"


@pytest.mark.parametrize(
    "text",
    [
        "say 'like this' now",
        "‘like this’ it ends",
        "'frisco' is a word",
        "a 'kay' too",
        "'it is doin'",
        "'I was goin' home'",
    ],
)
def test_quotation_marks_are_no_part_of_a_word(text: str, listed: Pronouncer) -> None:
    marks = [word.text for word in listed(text, num_beams=1) if word.source == "punctuation"]
    assert [sign for mark in marks for sign in mark] == [*(("‘", "’") if "‘" in text else ("'", "'"))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10⁻³ m, 10²³, 10⁶, xⁿ", "ten to the minus three m , ten to the twenty three , ten to the six , x to the n"),
        ("m² s⁻¹ 5 m³, (a)⁴", "m squared s to the minus one five meters cubed , ( a ) to the four"),
        ("CO₂ H₂SO₄ Ca²⁺ note⁴", "C O two H two S O four Ca two plus note four"),
        ("⅓ ⅔ 1⅛ 1⁄2 ³⁄₄ 5⁄12", "one third two thirds one and an eighth one half three quarters five twelfths"),
        ("Act Ⅳ, Louis ⅩⅣ, Ⅻ", "Act four , Louis the fourteenth , twelve"),
        ("① ❷ ⑶ ⑩ 4ᵗʰ", "one two three ten fourth"),
        ("5 µg, 3µm, 1 Ω, 2 kΩ, 5㎏", "five micrograms , three micrometers , one ohm , two kiloohms , five kilograms"),
        ("5％ ＄5 ＡＢＣ ｃａｔ １２ ﬁsh", "five percent five dollars A B C cat twelve fish"),
        (
            "±3 ≤ 4 ≥ 5 ÷ 6 × 7",
            "plus or minus three less than or equal to four greater than or equal to five divided by six times seven",
        ),
        ("≈ 8 ≠ 9, § 5", "approximately eight not equal to nine , section five"),
        ("Δt, β-carotene", "delta t , beta carotene"),
        ("∰ ⋈ ﷽", "? ? ?"),
    ],
)
def test_compatibility_forms_and_powers(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("===== --- *** ### ~~~ ^^^ +==+", "===== --- *** ### ~~~ ^^^ +==+"),
        ("don`t don´t they`ll `a`", "don't don't they'll ` a `"),
        ("10 s, 10s, 1 s, 0.5s", "ten seconds , ten seconds , one second , zero point five seconds"),
        ("the 80s, her 20s and 30s, 0s and 1s", "the eighties , her twenties and thirties , zeros and ones"),
        ("10s of, 30s wait, K8s", "ten seconds of , thirty seconds wait , K eight s"),
        (
            "1\u202f000 km, 1\u2009234\u2009567",
            "one thousand kilometers , one million two hundred and thirty four thousand five hundred and sixty seven",
        ),
        ("1920x1080, 3 x 4", "nineteen twenty by one thousand and eighty , three by four"),
        ("1e-5 2.5E6", "one times ten to the minus five two point five times ten to the six"),
        ("10 in. wide, 1 in. nail, a 3-in. gap", "ten inches wide , one inch nail , a three - inch gap"),
        ("w/ milk, w/o it, a/w/b", "with milk , without it , a / w / b"),
        ("R&amp;D 5&nbsp;km &frac12; &#39;", "R and D five kilometers one half &#39;"),
        ("hel\u200blo G\u200bP\u200bU \ufeffcat", "hello G P U cat"),
        ("page xii, pp. iv, Chapter V, Vol. iii", "page twelve , pages four , Chapter five , Vol . three"),
        ("2/3 3/4 1 1/2 2/3 of", "two thirds three quarters one and a half two thirds of"),
        (
            "24/7 9/11 on 3/4, 1/2/2024, and/or",
            "twenty four / seven nine / eleven on three / four , one / two / twenty twenty four , and / or",
        ),
        ("a == b != c >= 3.10 -> d", "a equals b not equal to c greater than or equal to three point one zero arrow d"),
        (
            "2*3 **bold** *it* 2**8 x^2 ~5 x < 5",
            "two times three ** bold ** * it * two to the eight x to the two about five x less than five",
        ),
        ("foo.bar() .gitignore 3.x End. It", "foo dot bar () dot gitignore three dot x End . It"),
        ("<b>x</b> <!-- y --> <name> `x`'s", "? x ? ? < name > ` x's"),
        ("0x1F a1b2c3d4e5", "zero X one F A one B two C three D four E five"),
        ("Qm7Yw3Ap9Jz5CZsn", "Q M seven Y W three A P nine J Z five C Z S N"),
        (
            "`>=` or `<->` Jo <jo@example.org> 20",
            "` greater than or equal to ` or ` < -> ` Jo < jo at example dot org > twenty",
        ),
        (
            "Sat, 3 Oct; Fri Jan 2; sat 3 M, 300M",
            "Saturday , three October ; Friday January two ; sat three M , three hundred million",
        ),
    ],
)
def test_signs_and_code(text: str, expected: str) -> None:
    pytest.importorskip("num2words")
    assert said(text) == expected


README = """
# Blorp: `fnord`s of *all* **kinds**
=====================================
[![Build](https://example.org/a_b.svg?x=%20y)](https://example.org) <img src="logo.png" alt="Logo"> | PyPI |
|:---|---:|
> Quoted, see [the docs](docs/index.md#top) or <me@example.org>. :ref:`there <target>`_

```python
>>> import blorp; blorp.run(max_size=10, **kwargs)  # doctest: +SKIP
$ pip install "blorp[all]>=1.2,!=1.3" --no-deps -v && cd ~/src/blorp || exit 1
```
├── README.md 🚀 © 2024 Blorp &amp; Co. MIT-licensed v1.0.0rc1 (#42) sha256:deadbeef0123456789
"""


def test_no_word_of_a_readme_is_lost(listed: Pronouncer) -> None:
    """The tokens make up the whole text, every letter and digit is in a spoken word, and unknown ones are reported."""
    found = listed(README, num_beams=1)
    assert "".join(word.text + word.space for word in found).strip() == README.strip()
    assert [word.text for word in found if word.source == "unknown"] == ['<img src="logo.png" alt="Logo">', "🚀"]
    assert not any(c.isalnum() for word in found if word.source == "punctuation" for c in word.text)
    words = [word.text for word in found if word.phonemes]
    assert "equals" not in said("=" * 37)
    assert {"PyPI", "max_size", "kwargs", "MIT-licensed", "deadbeef0123456789"} <= {*words}


@given(st.text(st.sampled_from("aB1 .,'`\"<>=*_#|~&;:/\\-()[]{}$%^+@!?²⁻½ﬁ①\n"), max_size=40))
def test_no_letter_or_digit_of_markup_is_punctuation(text: str) -> None:
    tokens = tokenize(text)
    whole = unicodedata.normalize("NFC", text).lstrip()
    assert "".join(token.text + token.space for token in tokens) == whole
    for token in tokens:
        assert token.kind != "punctuation" or not any(c.isalnum() for c in token.text.replace("&#39;", "")), token
