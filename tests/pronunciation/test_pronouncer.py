"""Properties of every pronouncer: nothing is lost, sources are used in order, confidences are those of the search."""

import math
import socket
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

from attnzoo import phone_sets
from attnzoo.alignment import forced_decode
from attnzoo.export import to_onnx
from attnzoo.pronunciation import Pronouncer, confidences, pronouncer, word_model
from attnzoo.pronunciation.lexicons import Entry
from attnzoo.pronunciation.word_model import phones_first
from attnzoo.shipped_models import PRONUNCIATION
from tests.factory import refused
from tests.pronunciation.odd_strings import ODD_STRINGS

WORDS = ["cat", "philosophy", "blorptastic", "xylophone", "a", "be", "knights", "it's", "cat", "internationalisation"]
TEXT = "Dr. O’Neill's 42 cats (and a naïve GPU) cost $3.50; 寿司, don't they? 👍 Blorp-fnord’s U.S. café..."


def test_a_text_keeps_its_order_and_loses_nothing(pronounce: Pronouncer) -> None:
    words = pronounce(TEXT, num_beams=1)
    assert "".join(word.text + word.space for word in words) == TEXT
    assert [word.text for word in words if word.source == "unknown"] == ["寿司", "👍"]
    for word in words:
        assert (word.phonemes is None) == (word.source == "unknown")
        assert (word.phonemes == word.text) == (word.source == "punctuation")
    assert pronounce([TEXT, "cat"], num_beams=1) == [words, pronounce("cat", num_beams=1)]
    assert pronounce("") == pronounce([]) == pronounce.words([]) == []


def test_a_hundred_odd_strings_lose_no_word(pronounce: Pronouncer, listed: Pronouncer) -> None:
    assert len(set(ODD_STRINGS)) >= 100
    mixed = [text for odd in ODD_STRINGS for text in (odd, "blorptastic")]
    for each in (pronounce, listed):
        found = each.words(mixed, num_beams=1)
        assert [word.text for word in found] == mixed
        assert len({word.phonemes for word in found[1::2]}) == 1
        unknown = [word.text for word in found if word.phonemes is None]
        assert {"", "\x00", "寿司", "a" * 10_000} < {*unknown} < {*ODD_STRINGS}
        assert all(word.phonemes for word in found if word.text not in unknown)
        skipped = each.words(mixed, num_beams=1, on_unknown="skip")
        assert [word.text for word in skipped] == [text for text in mixed if text not in unknown]
        texts = each(ODD_STRINGS, num_beams=1)
        for text, words in zip(ODD_STRINGS, texts, strict=True):
            assert (
                "".join(word.text + word.space for word in words).strip() == unicodedata.normalize("NFC", text).strip()
            )
            each.join(words)


def test_what_is_unknown_raises_on_request(pronounce: Pronouncer) -> None:
    with refused(ValueError, "'寿司' has characters that this model does not know: '司', '寿'", "on_unknown='keep'"):
        pronounce.words(["cat", "寿司"], on_unknown="raise")
    with refused(ValueError, "no word of at most 64 letters"):
        pronounce("a" * 100, on_unknown="raise")


def test_a_tagger_chooses_between_heteronyms(kokoro_folder: Path) -> None:
    def tags(words: list[str]) -> list[str]:
        return [
            {"to": "TO", "record": "VB" if "to" in words[:place] else "NN"}.get(w, "X") for place, w in enumerate(words)
        ]

    entries = {"record": (Entry(tuple("ɹˈɛkəɹd")), Entry(tuple("ɹəkˈɔɹd"), ("VERB",))), "to": (Entry(tuple("tə")),)}
    for tagger, expected in ((tags, "ɹəkˈɔɹd"), (lambda words: ["X"] * len(words), "ɹˈɛkəɹd")):
        pronounce = Pronouncer(phones="kokoro", model=kokoro_folder, dictionary=True, tagger=tagger)
        pronounce.dictionary = entries
        found = pronounce("to record")[1]
        assert found.phonemes == found.variants[0].phonemes == expected
        assert {variant.parts_of_speech for variant in found.variants} == {(), ("VERB",)}
        assert pronounce("a record")[1].phonemes == "ɹˈɛkəɹd"
        assert len(pronounce.words(["record"])[0].variants) == 2


def test_numbers_and_initialisms_are_several_words_or_one(pronounce: Pronouncer) -> None:
    words = pronounce.words(["four two", "the FBI", "F.B.I.", "F's", "New York!"])
    assert words[0].phonemes == " ".join(str(w.phonemes) for w in pronounce.words(["four", "two"]))
    assert words[1].phonemes == f"{pronounce.phonemize('the')} {words[2].phonemes}"
    assert (words[2].phonemes, words[2].source) == ("EH2 F B IY2 AY1", "rules")
    assert words[3].phonemes == "EH1 F S"
    assert words[4].phonemes == pronounce.phonemize("new york").replace(" |", "")


def test_no_digit_or_symbol_is_lost(pronounce: Pronouncer) -> None:
    texts = {"5°C": "five degrees C", "x²": "x squared", "3D": "three D", "C++": "C plus plus", "a=b": "a equals b"}
    for text, spoken in texts.items():
        assert pronounce.words([text])[0].phonemes == pronounce.phonemize(spoken).replace(" |", ""), text
    pronounce_own = Pronouncer(lexicon={"&": "AH N"}, dictionary=False)
    assert pronounce_own("cats & dogs")[1].phonemes == "AH N"
    fbi = Pronouncer(phones="kokoro", dictionary=False)("The FBI")[1]
    assert fbi.source == "rules"  # spelled out, not read as a word
    italian = Pronouncer(model="attentional-rnn-g2p-it")("5 gatti & € 3")
    assert [word.source for word in italian] == ["unknown", "model", "unknown", "unknown", "unknown"]
    italian = Pronouncer(model="attentional-rnn-g2p-it")("A casa, St. Anna")  # neither article nor saint
    assert [word.source for word in italian if word.source != "punctuation"] == ["model"] * 4


def test_the_model_says_what_its_search_finds(pronounce: Pronouncer, capfd: pytest.CaptureFixture[str]) -> None:
    """The n best are the beams, the most probable phones first. Confidences are their softmax, calibrated."""
    model, tokenizer = pronounce.word_model.engine.model, pronounce.word_model.engine.tokenizer
    (word,) = pronounce.words(["philosophy"], n_best=5, num_beams=5)
    inputs = tokenizer(["philosophy"], return_tensors="pt")
    ids = model.generate(**inputs, num_beams=5, num_return_sequences=5, length_penalty=0.0)[:, 1:]
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    labels = ids.masked_fill((ids == 2).cumsum(1) - (ids == 2).long() > 0, -100)
    scores = forced_decode(model, inputs["input_ids"].expand(5, -1), labels, None).scores
    order = scores.argsort(descending=True)
    temperature = pronounce.word_model.engine.calibration[0]
    order = order[phones_first([tuple(texts[place].split()) for place in order], scores[order].tolist(), temperature)]
    assert [variant.phonemes for variant in word.variants] == [texts[place] for place in order]
    softmax = (scores[order] / model.config.confidence_temperature).softmax(0)
    expected = torch.sigmoid(torch.log(softmax / (1 - softmax)) + model.config.confidence_bias)
    torch.testing.assert_close(torch.tensor([v.confidence for v in word.variants]), expected, rtol=1e-3, atol=1e-5)
    assert pronounce.words(["philosophy"], num_beams=5)[0].confidence == pytest.approx(word.confidence)
    capfd.readouterr()
    (greedy,) = pronounce.words(["philosophy"], num_beams=1)
    assert not capfd.readouterr().err  # Transformers reports options that a search does not have
    only = tokenizer.decode(model.generate(**inputs, num_beams=1)[0], skip_special_tokens=True)
    assert (greedy.phonemes, greedy.confidence) == (only, None)


def test_phones_whose_hypotheses_together_are_the_most_probable_come_first() -> None:
    """With any stress, B has 0.35 + 0.25 and A has 0.4; the more probable stress of B comes first. A temperature near 0
    counts only the best hypothesis of each.
    """
    phones, chances = [("A1",), ("B0", "ˈɪ"), ("B1", "ɪ"), ()], [0.4, 0.25, 0.35, 1e-9]
    values = [math.log(chance) for chance in chances]
    assert phones_first(phones, values) == [2, 1, 0, 3]
    assert phones_first(phones, [value - 1000 for value in values]) == [2, 1, 0, 3]
    assert phones_first(phones, values, 0.01) == [0, 2, 1, 3]


def test_a_temperature_is_that_of_a_softmax_and_a_bias_is_added_to_the_log_odds(
    pronounce: Pronouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    softmax = torch.tensor([-2.0, -4.0, -8.0], dtype=torch.float64).softmax(0)
    assert confidences([-1.0, -2.0, -4.0], 0.5) == pytest.approx(softmax.tolist())
    assert confidences([-1.0, -2.0, -4.0], 0.5, -0.7) == pytest.approx((softmax.logit() - 0.7).sigmoid().tolist())
    assert confidences([-1.0], 0.5, -0.7) == [1.0]  # no other was found
    (before,) = pronounce.words(["colonel"])
    monkeypatch.setattr(pronounce.word_model.engine, "calibration", (0.25, 0.0))
    (after,) = pronounce.words(["colonel"])
    assert (after.confidence or 0) > (before.confidence or 0)
    assert after.phonemes == before.phonemes


@pytest.mark.parametrize("num_beams", [1, 3])
def test_batches_equal_single_words(pronounce: Pronouncer, num_beams: int) -> None:
    options: dict[str, Any] = {"n_best": num_beams, "num_beams": num_beams}
    single = [pronounce.words([word], **options)[0] for word in WORDS]
    for batch_size in (1, 3, 64):
        for one, other in zip(single, pronounce.words(WORDS, batch_size=batch_size, **options), strict=True):
            assert [v.phonemes for v in one.variants] == [v.phonemes for v in other.variants]
            assert (one.confidence or 0.0) == pytest.approx(other.confidence or 0.0, rel=1e-3)


def test_a_stream_equals_the_list_and_does_not_read_ahead(
    pronounce: Pronouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [word.phonemes for word in pronounce.words(WORDS, num_beams=1)]
    taken = []

    def words() -> Iterator[str]:
        for word in WORDS:
            taken.append(word)
            yield word

    monkeypatch.setattr(pronouncer, "WINDOW", 4)
    stream = pronounce.stream(words(), num_beams=1)
    first = next(stream)
    assert len(taken) == 4
    assert [first.phonemes, *(word.phonemes for word in stream)] == expected


def test_no_word_is_read_twice_in_a_call(pronounce: Pronouncer, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = pronounce.word_model._search
    monkeypatch.setattr(
        pronounce.word_model, "_search", lambda words, beams: read.extend(words) or original(words, beams)
    )
    pronounce("Blorp blorp; rôle role?", num_beams=1)
    assert sorted(read) == ["blorp", "role"]


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_model_that_does_not_end_is_stopped(num_beams: int, kokoro_folder: Path, monkeypatch: Any) -> None:
    """It is stopped at the limit for its own letters, also in a batch with longer words."""
    pronounce = Pronouncer(phones="kokoro", model=kokoro_folder)
    monkeypatch.setattr(pronounce.word_model, "limits_phones", True)
    with torch.no_grad():
        pronounce.word_model.engine.model.lm_head.weight[2] = 0.0  # of the end token
        pronounce.word_model.engine.model.lm_head.weight[3:] += 3.0
    words = ["blorp", "blorptastic", "blorptasticalfnordism"]
    for found in (
        pronounce.words(words, num_beams=num_beams),
        [pronounce.words([w], num_beams=num_beams)[0] for w in words],
    ):
        for word in found:
            limit = int(word_model.PHONES_PER_LETTER * len(word.text)) + word_model.MORE_PHONES
            assert len(word.variants[0].phones) <= limit


def test_a_long_word_does_not_repeat_itself(pronounce: Pronouncer) -> None:
    (word,) = pronounce.words(["antidisestablishmentarianism"])
    phones = list(word.variants[0].phones)
    assert 20 <= len(phones) <= 30
    assert not any(phones[i : i + 3] == phones[i + 3 : i + 6] == phones[i + 6 : i + 9] for i in range(len(phones)))


def test_alignments_have_a_row_for_every_phone(listed: Pronouncer) -> None:
    words = listed("Blorp cats, 42 寿司", alignments=True)
    for word in words:
        for pair in word.alignments:
            assert pair is not None
            assert pair.weights.shape == (len(pair.target_words), len(pair.source_words))
        joined = " ".join(" ".join(pair.target_words) for pair in word.alignments if pair)
        assert joined == (word.phonemes or "" if word.alignments else "")
    assert "".join(words[0].alignments[0].source_words) == "blorp"
    assert [len(word.alignments) for word in words] == [1, 1, 0, 2, 0]


def test_the_accent_is_the_first_token_of_the_source(kokoro_folder: Path) -> None:
    seen = []
    for accent in ("en-us", "en-gb"):
        pronounce = Pronouncer(accent, "kokoro", model=kokoro_folder)
        (word,) = pronounce.words(["blorp"], alignments=True)
        seen.append(word)
        pair = word.alignments[0]
        assert pair is not None
        assert "".join(pair.source_words) == "blorp"
        assert pair.weights.shape[1] == 5
    assert seen[0].variants[0].confidence != seen[1].variants[0].confidence
    read = pipeline("grapheme-to-phoneme", model=str(kokoro_folder))
    american, british = (read(f"{accent}Blorp") for accent in ("⟦us⟧", "⟦gb⟧"))
    assert american[0]["pronunciation"] != british[0]["pronunciation"]
    with refused(ValueError, "does not know: '⟦', '⟧'"):
        read("⟦xx⟧Blorp")


def test_ipa_is_made_of_the_models_phones(listed: Pronouncer) -> None:
    ipa = Pronouncer(phones="ipa")
    assert ipa.words(["cheese"])[0].phonemes == "ˈtʃiz"
    assert ipa.phonemize("Hello, “cat”!") == "həˈloʊ, “ˈkæt”!"
    assert [w.source for w in ipa(TEXT)] == [w.source for w in listed(TEXT)]


def test_a_model_of_another_language_reads_whole_items(run: Path) -> None:
    """Its phones are not English, so English names of letters are not used."""
    pronounce = Pronouncer(model=run / "best")
    words = pronounce.words(["tetha", "kheno", "ж"])
    assert [word.source for word in words] == ["model", "model", "unknown"]
    assert not pronounce.dictionary


def test_there_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*arguments: Any) -> None:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    assert Pronouncer()("cat blorp")[1].phonemes == "B L AO1 R P"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 0}, "n_best must be a whole number of at least 1, got 0"),
        ({"num_beams": 2.5}, "num_beams must be a whole number of at least 1, got 2.5"),
        ({"batch_size": None}, "batch_size must be a whole number of at least 1, got None"),
        (
            {"num_beams": 2, "n_best": 3},
            "n_best=3 needs at least 3 beams, got num_beams=2; raise num_beams or leave it out",
        ),
        ({"on_unknown": "drop"}, "on_unknown must be 'keep', 'skip' or 'raise', got 'drop'"),
    ],
)
def test_options_that_cannot_be_are_refused(pronounce: Pronouncer, options: dict[str, Any], message: str) -> None:
    with refused(ValueError, message):
        pronounce("cat", **options)


def test_an_option_that_there_is_not_is_refused(pronounce: Pronouncer) -> None:
    with refused(
        TypeError,
        "unknown option 'nbest' of a pronouncer's call; did you mean 'n_best'? the options are n_best",
    ):
        pronounce.words(["cat"], nbest=2)


@pytest.mark.parametrize("given", [None, b"cat", 5])
def test_what_is_no_text_is_refused(pronounce: Pronouncer, given: Any) -> None:
    for call in (pronounce, pronounce.words):
        with refused(ValueError, f"expected a text or a list of texts, got {given!r}"):
            call(given)
        with refused(ValueError, f"every item must be a text, got {given!r}"):
            call(["cat", given])
    for one in (given, ["a", "b"]):
        with refused(ValueError, f"text must be one text, got {one!r}"):
            pronounce.phonemize(one)


def test_what_there_is_not_is_refused(pronounce: Pronouncer) -> None:
    with refused(ValueError, "accent must be one of en-us, en-gb", "accent='fr'"):
        Pronouncer("fr")
    with refused(ValueError, "the accent en-gb writes the phones 'arpabet'", "choose 'kokoro' or 'ipa'"):
        Pronouncer("en-gb")
    for name, wrong in (("accent", ["en-us"]), ("model", ""), ("tagger", "spacy"), ("device", "foo"), ("device", 3)):
        with refused(ValueError, f"{name} must be", repr(wrong)):
            Pronouncer(**{name: wrong})
    with refused(TypeError, "dictionary must be True or False"):
        Pronouncer(dictionary="no")  # type: ignore[arg-type]
    with refused(
        ValueError, "is not a pronunciation model: its tokenizer has no phonemes", "such as attentional-rnn-g2p-cmudict"
    ):
        Pronouncer(model="small-transformer-multi30k-en-de")
    with refused(ValueError, "got the text 'cat'"):
        pronounce.words("cat")
    with refused(FileNotFoundError, "model='nope'"):
        Pronouncer(model="nope")
    with refused(ValueError, "self-attentive-sst2 is not a model of pronunciation"):
        Pronouncer(model="self-attentive-sst2")


def test_a_model_has_its_own_phones_and_accents(kokoro_folder: Path) -> None:
    with refused(ValueError, "writes the phones 'kokoro', got phones='arpabet'"):
        Pronouncer(model=kokoro_folder)
    with refused(ValueError, "writes the phones 'arpabet', got phones='kokoro'"):
        Pronouncer(phones="kokoro", model=PRONUNCIATION)
    with refused(ValueError, "has only the accent en-us, got accent='en-gb'; choose that accent or another model"):
        Pronouncer("en-gb", "ipa", model=PRONUNCIATION)
    for accent in ("en-us", "en-gb"):
        with refused(ValueError, "g2p-sv has no accents", f"got accent={accent!r}; leave it out"):
            Pronouncer(accent, model="attentional-rnn-g2p-sv")
    for phones in ("ipa", "arpabet"):  # CMUdict is not for Italian
        with refused(ValueError, "no dictionary has the phones of ", "g2p-it", "leave out dictionary=True"):
            Pronouncer(phones=phones, model="attentional-rnn-g2p-it", dictionary=True)
    face = Pronouncer("en-gb", "ipa", model=kokoro_folder).words(["bad"], num_beams=1)[0]
    own = Pronouncer("en-gb", "kokoro", model=kokoro_folder).words(["bad"], num_beams=1)[0]
    assert own.phonemes
    assert face.phonemes == phone_sets.written(phone_sets.split(own.phonemes, "kokoro"), "kokoro", "ipa")


def test_a_loanword_is_not_another_word_without_its_accent(listed: Pronouncer) -> None:
    cafe, rose = listed.words(["café", "rosé"])
    assert (cafe.source, cafe.phonemes) == ("dictionary", "K AH0 F EY1")
    assert rose.source == "model"
    assert listed("b" + "'s" * 1200)  # and no recursion over endings


@pytest.mark.parametrize(
    "word",
    ["rosés", "rose\u0301s", "EXPOSÉ", "exposés", "pâté’s", "fiancées", "cafés'", "cliché", "sautéed", "résumés"],
)
def test_an_accented_e_at_the_end_is_sounded(
    word: str, pronounce: Pronouncer, listed: Pronouncer, kokoro: Pronouncer
) -> None:
    """rosés is not roses, with a dictionary and without, also in a possessive."""
    for each, vowel in ((pronounce, "EY"), (listed, "EY"), (kokoro, "A")):
        (found,) = each.words([word])
        *_, last = phone_sets.without_stress(
            tuple(p for p in found.variants[0].phones if p not in ("Z", "z", "D", "d"))
        )
        assert last == vowel, (found, each.phones)


def test_an_accented_e_inside_a_word_is_sounded(pronounce: Pronouncer, kokoro: Pronouncer, listed: Pronouncer) -> None:
    """If a plain e would be silent: Pokémon is not "Poke-mon". If it would be sounded, nothing changes."""
    for each, vowels in ((pronounce, "AEIOU"), (kokoro, "AIOæɑɔəɛɜɪiʊuʌᵊᵻ")):
        for word, syllables in (("Pokémon", 3), ("protégé", 3), ("Valérie", 3), ("séance", 2)):
            (found,) = each.words([word])
            assert sum(set(phone) & set(vowels) != set() for phone in found.variants[0].phones) == syllables, found
    plain = pronounce.words(["America", "Valerie"])
    assert [word.phonemes for word in pronounce.words(["América", "Valérie"])] == [word.phonemes for word in plain]
    assert listed.words(["learnèd"])[0].phonemes == "L ER1 N IH0 D"


def test_an_accent_that_changes_a_letter_is_respelled(pronounce: Pronouncer) -> None:
    read = pronounce.word_model.readable
    words = ["Zoë", "façade", "piñata", "séance", "protégés", "fiancée", "Crème", "Noël", "élan", "communiqué"]
    letters = ["zoey", "fasade", "pinyata", "sayance", "protijays", "fiansay", "creme", "noel", "elan", "communikay"]
    assert [read(word) for word in words] == letters
    assert pronounce.words(["soirée"])[0].phonemes == "S W AA0 R EY1"  # a training word, without its accent
    italian = Pronouncer(model="attentional-rnn-g2p-it").word_model
    assert italian.readable("perché") == "perché"


def test_the_depends_on_the_next_sound(listed: Pronouncer) -> None:
    """In misaki's dictionary it has one pronunciation for all."""
    kokoro = Pronouncer(phones="kokoro")
    kokoro.dictionary = {"the": (Entry(("ð", "i")),), "hour": (Entry(("ˈW", "ə", "ɹ")),)}
    text = "The dog, the hour, the union, the FBI, the 8 the."
    the = [word.phonemes for word in kokoro(text) if word.text.lower() == "the"]
    assert the == ["ðə", "ði", "ðə", "ði", "ði", "ði"]
    the = [word.phonemes for word in listed(text) if word.text.lower() == "the"]
    assert the == ["DH AH0", "DH IY0", "DH AH0", "DH IY0", "DH IY0", "DH AH0"]
    mine = Pronouncer(lexicon={"the": "D AH0"})
    assert mine("the hour")[0].phonemes == "D AH0"


def test_only_what_a_model_does_not_know_loses_its_accent(kokoro_folder: Path) -> None:
    read = Pronouncer(phones="kokoro", model=kokoro_folder).word_model
    read._normalizer = None
    read.letters |= {"ä", "न", "म"}
    assert read.readable("äbõ") == "äbo"
    assert read.readable("नम") == "नम"
    assert read.readable("न्म") is None  # a sign of Devanagari, which changes the word
    assert read.readable("\ud800") is None


def test_onnx_runtime_gives_what_pytorch_gives(pronounce: Pronouncer, tmp_path: Path) -> None:
    """With an export that it makes, and from a folder that was exported before."""
    in_onnx = Pronouncer(dictionary=False, engine="onnx")
    model, tokenizer = pronounce.word_model.engine.model, pronounce.word_model.engine.tokenizer
    exported = Pronouncer(model=to_onnx(model, tmp_path / "exported", tokenizer))
    for options in ({"num_beams": 1}, {"n_best": 3, "num_beams": 5}, {"alignments": True}):
        expected = pronounce.words(WORDS, **options)
        for other in (in_onnx, exported):
            for one, word in zip(expected, other.words(WORDS, **options), strict=True):
                assert [v.phonemes for v in word.variants] == [v.phonemes for v in one.variants]
                assert (word.confidence or 0.0) == pytest.approx(one.confidence or 0.0, rel=1e-3)
                for pair, own in zip(word.alignments, one.alignments, strict=True):
                    assert pair
                    assert own
                    assert (pair.source_words, pair.target_words) == (own.source_words, own.target_words)
                    torch.testing.assert_close(pair.weights, own.weights, rtol=1e-3, atol=1e-4)
                    assert pair.score == pytest.approx(own.score, abs=1e-3)


def test_weights_in_eight_bits_are_those_of_an_export(pronounce: Pronouncer, tmp_path: Path) -> None:
    model, tokenizer = pronounce.word_model.engine.model, pronounce.word_model.engine.tokenizer
    exported = Pronouncer(model=to_onnx(model, tmp_path / "exported", tokenizer, "int8"))
    own = Pronouncer(dictionary=False, engine="onnx-int8")
    found, expected, whole = (one.words(WORDS, num_beams=5) for one in (own, exported, pronounce))
    assert [word.phonemes for word in found] == [word.phonemes for word in expected]
    confident, of_export, of_whole = ([word.confidence or 0.0 for word in words] for words in (found, expected, whole))
    assert confident == pytest.approx(of_export, rel=1e-2)
    assert confident != pytest.approx(of_whole, rel=1e-2)


def test_an_engine_must_fit_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="engine must be 'torch', 'onnx', 'onnx-int8' or None, got 'tflite'"):
        Pronouncer(engine="tflite")  # type: ignore[arg-type]
    (tmp_path / "export.json").write_text("{}")
    for engine in ("torch", "onnx-int8"):
        with pytest.raises(ValueError, match=f"engine='{engine}' needs .* is an export to ONNX"):
            Pronouncer(model=tmp_path, engine=engine)  # type: ignore[arg-type]
