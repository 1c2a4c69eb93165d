"""Texts to tokens: nothing is lost; the spoken words of numbers, initialisms and symbols."""

import importlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnzoo.pronunciation import numbers
from attnzoo.pronunciation.text import plain, tokenize


@given(
    st.text(
        alphabet=st.one_of(
            st.characters(exclude_categories=["Cs"]),
            st.sampled_from("aABsmkgSt:\n'’-.,$€¢\u2212/01 %⁻³½⁄①ﬁ\u200b&;<>`_=*"),
        )
    )
)
def test_tokens_and_spaces_are_the_whole_text(text: str) -> None:
    tokens = tokenize(text)
    composed = unicodedata.normalize("NFC", text)
    start = next((i for i, character in enumerate(composed) if not character.isspace()), len(composed))
    assert "".join(token.text + token.space for token in tokens) == composed[start:]
    for token in tokens:
        assert token.text
        assert bool(token.parts) == (token.kind not in ("punctuation", "unknown"))
        assert all(part.strip() for part in token.parts)


def spoken(text: str) -> list[str]:
    """The spoken words of each word, and punctuation unchanged."""
    return [" ".join(token.parts) or token.text for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("don’t 'stop' it", ["don’t", "'", "stop", "'", "it"]),
        ("'tis rock-n-roll", ["'tis", "rock-and-roll"]),
        ("Dr. O'Neill etc.", ["doctor", "O'Neill", "et cetera", "."]),
        ("50% & more", ["five zero percent", "and", "more"]),
        ("3 €, €3, $ ½ m²", ["three", "euros", ",", "three euros", ",", "dollars", "one half", "meters", "squared"]),
        ("St. Ives, St  John, Main St. is", ["saint", "Ives", ",", "saint", "John", ",", "Main", "street", "is"]),
        ("1 €, 1 cup, $.50", ["one", "euro", ",", "one", "cup", ",", "zero point five zero dollars"]),
        ("$3rd, 5 €10 notes, $1", ["three dollars", "rd", ",", "five", "one zero euros", "notes", ",", "one dollar"]),
        ("-5 or \u22123 (-2.5)", ["minus", "five", "or", "minus", "three", "(", "minus", "two point five", ")"]),
        ("3-5 - 6 a-1 -a", ["three", "-", "five", "-", "six", "a", "-", "one", "-", "a"]),
        ("1½ cups, ½ cup", ["one", "and a half", "cups", ",", "one half", "cup"]),
        (
            "$5 million, £1.5bn, €2k",
            ["five million dollars", ",", "one point five billion pounds", ",", "two thousand euros"],
        ),
        ("$5B, $5 MİLLİON", ["five billion dollars", ",", "five dollars", "MİLLİON"]),
        (".5 (.5) a.5", ["zero point five", "(", "zero point five", ")", "a", ".", "five"]),
        ("F.B.I.’s U.S.'s", ["F B I's", "U S's"]),
        ("5’s $5's 3rd's $5B's", ["five's", "five dollars", "three's", "five billion dollars"]),
        ("wait... what?!", ["wait", "...", "what", "?!"]),
        ("mp3 B-52", ["mp", "three", "B", "-", "five two"]),
        ("A dog. “A cat”: A 10", ["a", "dog", ".", "“", "a", "cat", "”:", "a", "one zero"]),
        ("A Tale. A is from A to Z, A", ["a", "Tale", ".", "A", "is", "from", "A", "to", "Z", ",", "A"]),
        ("VITAMIN A, A CAT", ["VITAMIN", "A", ",", "a", "CAT"]),
        ("Dr. Who, Mr Bean, MRS. May", ["doctor", "Who", ",", "mister", "Bean", ",", "missus", "May"]),
        ("Ocean Dr met the Dr. Dr. No.", ["Ocean", "Dr", "met", "the", "doctor", "doctor", "No", "."]),
        ("Main St. The Ave. and Jr.", ["Main", "street", ".", "The", "avenue", "and", "junior", "."]),
        ("Gen. Lee. Gen Z. Col. is", ["general", "Lee", ".", "Gen", "Z", ".", "Col", ".", "is"]),
        ("No. 5? No. Yes", ["number", "five", "?", "No", ".", "Yes"]),
        ("etc. so vs. etc...", ["et cetera", "so", "versus", "et cetera", "..."]),
        ("6 Nov 9 Jan. 5. Jan sat", ["six", "November", "nine", "January", "five", ".", "Jan", "sat"]),
        ("5kg 1 km. 3 ft. of", ["five", "kilograms", "one", "kilometer", ".", "three", "feet", "of"]),
        ("a 5-km run, 2 KG", ["a", "five", "-", "kilometer", "run", ",", "two", "kilograms"]),
        ("9 km/h km N/A so", ["nine", "kilometers per hour", "km", "N", "/", "A", "so"]),
        ("1½ km £5 km", ["one", "and a half", "kilometers", "five pounds", "km"]),
        ("the U.S. The U.S. is in the U.S.", ["the", "U S", ".", "The", "U S", "is", "in", "the", "U S", "."]),
        ("x\u00ady", ["x\u00ady"]),
        ("❤️ is 👩\u200d👧👍🏽, 1️⃣2️⃣ a\u200db ‼️", ["❤️", "is", "👩\u200d👧👍🏽", ",", "one two", "a\u200db", "‼️"]),
        ("नमस्ते 寿司 👍", ["नमस्ते", "寿司", "👍"]),
    ],
)
def test_words_and_punctuation(text: str, expected: list[str], without_num2words: None) -> None:
    assert " ".join(spoken(text)) == " ".join(expected)


@pytest.mark.parametrize(
    ("text", "kind", "letters"),
    [
        ("U.S.A. is", "initialism", "U S A"),
        ("e.g. this", "initialism", "e g"),
        ("HTML is", "initialism", "H T M L"),
        ("HTML IS", "initialism", "H T M L"),
        ("US and", "initialism", "U S"),
        ("US AND", "word", "US"),
        ("GPU is", "acronym", "G P U"),
        ("GPU IS", "acronym", "G P U"),
        ("GPU", "acronym", "G P U"),
        ("The HDMI", "word", "The"),
        ("HDMI is", "acronym", "H D M I"),
        ("IBM", "acronym", "I B M"),
        ("API", "capitals", "A P I"),
        ("CAT!", "capitals", "C A T"),
        ("API IS", "word", "API"),
        ("HELLO", "word", "HELLO"),
        ("SCHMO AND PSALM", "word", "SCHMO"),
        ("MCKAY IS", "word", "MCKAY"),
        ("CDs ARE", "initialism", "C D's"),
        ("APIs are", "acronym", "A P I's"),
        ("BBC's is", "initialism", "B B C's"),
        ("NATO is", "word", "NATO"),
        ("Cat is", "word", "Cat"),
    ],
)
def test_what_is_spelled_out(text: str, kind: str, letters: str) -> None:
    token = tokenize(text)[0]
    assert (token.kind, " ".join(token.parts)) == (kind, letters)


def test_plain_has_the_letters_of_english_alone() -> None:
    assert plain("Café") == "cafe"
    assert plain("Straße’s") == "strasse's"
    assert plain("ﬁn\u00adance") == "finance"
    assert plain("Ⓐé") == "ae"


@pytest.fixture
def without_num2words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_num2words", lambda: None)


@pytest.fixture
def with_num2words(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module("num2words").num2words  # of the extra [test], and of [text]
    monkeypatch.setattr(numbers, "_num2words", lambda: real)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("0", "zero"),
        ("42", "forty two"),
        ("1,000,001", "one million and one"),
        ("1,2,3", "one two three"),
        ("10,20,3rd", "ten twenty third"),
        ("1,2nd", "one second"),
        ("1.5,2", "one point five two"),
        ("3.05", "three point zero five"),
        ("007", "zero zero seven"),
        ("1999", "nineteen ninety nine"),
        ("1990s", "nineteen nineties"),
        ("21st", "twenty first"),
        ("$5", "five dollars"),
        ("$.50", "fifty cents"),
        ("$1.01", "one dollar and one cent"),
        ("£0.50", "fifty pence"),
        ("5,20 €", "five euros and twenty cents"),
        ("1.234,5€", "one thousand two hundred and thirty four point five euros"),
        ("1,234 £", "one thousand two hundred and thirty four pounds"),
        ("1 $", "one dollar"),
        ("2,5", "two point five"),
        ("$0", "zero dollars"),
        ("$2.5", "two point five dollars"),
        ("192.168.0.1", "one nine two point one six eight point zero point one"),
        ("١٢", "twelve"),
        ("9" * 16, " ".join(["nine"] * 16)),
        ("10:30", "ten thirty"),
        ("09:05", "nine oh five"),
        ("10:00", "ten o'clock"),
        ("15:00", "fifteen hundred"),
    ],
)
def test_numbers_with_num2words(number: str, words: str, with_num2words: None) -> None:
    assert " ".join(numbers.number_words(number)) == words
    assert spoken(number) == [words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 AM is", "ten A M is"),
        ("10:00 am", "ten a m"),
        ("7:15pm", "seven fifteen p m"),
        ("5 p.m.", "five p m ."),
        ("10.30am", "ten thirty a m"),
        ("1.2.3am", "one point two point three a m"),
        ("½ am, 5-am", "one half am , five - am"),
        ("I am 5, AM", "I am five , A M"),
        ("1:23:45", "one : twenty three : forty five"),
        ("3:2", "three : two"),
    ],
)
def test_times_of_day(text: str, expected: str, with_num2words: None) -> None:
    assert " ".join(spoken(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Henry VIII’s, Pius X. He and Charles I", "Henry the eighth’s , Pius the tenth . He and Charles I"),
        ("John V. Lindsay, Prof. A. Smith", "John V . Lindsay , professor A . Smith"),
        ("Vol. II, Fig. IV", "volume two , figure four"),
        ("approx. 5 km. A man", "approximately five kilometers . a man"),
        ("World War II, Type IV; the II", "World War two , Type four ; the I I"),
        ("An IV drip, Malcolm X, XIV", "An I V drip , Malcolm X , X I V"),
        ("me@a-b.co.uk.", "me at a dash B dot co dot uk ."),
        ("https://x.org/a_b?", "H T T P S colon slash slash X dot org slash a underscore B ?"),
        ("Amazon.com, end.Come", "Amazon dot com , end . Come"),
        ("(#1 C#5 #FlyMeTo)", "( number one C # five hashtag Fly Me To )"),
        ("AT&T CO2 AT 5", "A T and T C O two AT five"),
        ("£2tn on pp. 5", "two trillion pounds on pages five"),
        ("Ph.D. and PhD. My Ph.D.", "P H D and P H D . My P H D ."),
        ("Inc.'s, Jr.’s Ph.D.'s", "incorporated's , junior's P H D's"),
        ("Smith Dr. in town", "Smith drive in town"),
        ("Maple Dr., 5 Elm Dr., Ohio. Hi Dr., I", "Maple drive , five Elm drive , Ohio . Hi doctor , I"),
        ("Dear Dr., Thank you", "Dear doctor , Thank you"),
        ("on mar 3 guests arrive", "on March three guests arrive"),
        (
            "The Dr. in. My Dr. said. Dr. Wu, Main St. My",
            "The doctor in . My doctor said . doctor Wu , Main street . My",
        ),
        ("A 3 lb. baby, 3 lb. of it, an 8 m", "a three pound baby , three pounds of it , an eight meter"),
        ("a 3 am call", "a three a m call"),
        ("Use IV fluids. Give IV, Use II", "Use I V fluids . Give I V , Use two"),
        ("Henry IV. Rocky IV, Chapter IV", "Henry the fourth . Rocky four , Chapter four"),
        (
            "mg/ml, 1 mg/mL, 3 g/L, in km/h",
            "milligrams per milliliter , one milligram per milliliter , three grams per liter , in kilometers per hour",
        ),
        (
            "$-5 -$5 $\u22121.50 €-.50",
            "minus five dollars minus five dollars minus one dollar and fifty cents minus fifty cents",
        ),
        ("$-2m, $5-$10 $- $-x", "minus two million dollars , five dollars - ten dollars dollars - dollars - x"),
        ("5¢, 1 ¢ ¢3. 2.50¢ ¢", "five cents , one cent three cents . two point five zero cents cents"),
        (
            "dec 25, mar. 3rd, SEP 5, jan 2024",
            "December twenty five , March third , September five , January twenty twenty four",
        ),
        (
            "March on 5, may 5, oct 755 jan5 mar",
            "March on five , may five , oct seven hundred and fifty five jan five mar",
        ),
    ],
)
def test_numerals_addresses_and_letters(text: str, expected: str, with_num2words: None) -> None:
    assert " ".join(spoken(text)) == expected


@pytest.mark.parametrize(
    ("number", "words"),
    [("42", "four two"), ("1,000", "one zero zero zero"), ("3.1", "three point one"), ("$20", "two zero dollars")],
)
def test_numbers_without_num2words(number: str, words: str, without_num2words: None) -> None:
    assert spoken(number) == [words]
