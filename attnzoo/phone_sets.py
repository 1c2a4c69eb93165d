"""Phone sets of English: ARPABET, Kokoro's and IPA; their tables and the names of the letters.

ARPABET is the set of the CMU Pronouncing Dictionary: 39 phones with spaces between them; a vowel has its stress, 0, 1
(primary) or 2 (secondary). Kokoro's phones are those of misaki: one character each, with ``ˈ`` or ``ˌ`` before a
stressed vowel and ``ː`` after a long one. They are not IPA, though most look like it: ``A`` is the vowel of "face".

IPA is made from the other two by the tables below. The table of ARPABET follows CMUdict's documentation, in General
American: unstressed ``AH`` is ə and unstressed ``ER`` is ɚ. The table of Kokoro's phones follows misaki's own
description (``EN_PHONES.md`` in its repository). IPA marks stress before the syllable: the mark is before the longest
run of consonants that can begin an English syllable (``ONSETS``).
"""

import re
import unicodedata
from collections.abc import Collection

from .phonemes import OPEN

Phones = tuple[str, ...]
PHONE_SETS = ("arpabet", "kokoro", "ipa")
SOURCE_OF_IPA = {"en-us": "arpabet", "en-gb": "kokoro"}  # the phones from which IPA is made
ACCENT_TOKENS = {"en-us": "⟦us⟧", "en-gb": "⟦gb⟧"}  # the first source token of a model of several accents
# In place of them where the rest of the source is a word of misaki's silver entries, which follow other conventions.
SILVER_TOKENS = {accent: token.replace(OPEN, f"{OPEN}silver") for accent, token in ACCENT_TOKENS.items()}
PRIMARY, SECONDARY = "ˈ", "ˌ"
STRESS_MARKS = frozenset("012" + PRIMARY + SECONDARY)
STRESS = {"0": "", "1": PRIMARY, "2": SECONDARY}

ARPABET_VOWELS = {
    **{"AA": "ɑ", "AE": "æ", "AH": "ʌ", "AH0": "ə", "AO": "ɔ", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɝ"},
    **{"ER0": "ɚ", "EY": "eɪ", "IH": "ɪ", "IY": "i", "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "u"},
}
ARPABET_CONSONANTS = {
    **{"B": "b", "CH": "tʃ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "dʒ", "K": "k", "L": "l"},
    **{"M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v"},
    **{"W": "w", "Y": "j", "Z": "z", "ZH": "ʒ"},
}
# American ARPABET in Kokoro's phones; consonants that are not here are those of IPA.
ARPABET_AS_KOKORO = {
    **{"AH": "ʌ", "AH0": "ə", "AW": "W", "AY": "I", "ER": "ɜɹ", "ER0": "əɹ", "EY": "A", "OW": "O", "OY": "Y"},
    **{"CH": "ʧ", "JH": "ʤ"},
}
# Kokoro's characters that are not IPA; all others stay.
KOKORO = {
    **{"A": "eɪ", "I": "aɪ", "O": "oʊ", "Q": "əʊ", "W": "aʊ", "Y": "ɔɪ"},
    **{"ʤ": "dʒ", "ʧ": "tʃ", "ᵊ": "ə", "ᵻ": "ɪ", "T": "ɾ"},
}
AS_MISAKI_PRINTS = str.maketrans("ɾʔ", "Tt")  # misaki's dictionary has other characters than its output
KOKORO_PHONE = f"[{PRIMARY}{SECONDARY}]?.ː?"  # a vowel is one phone with its stress and its length, as in ARPABET
KOKORO_VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵊᵻɐ")
ARPABET_PHONE = rf"(?:{'|'.join(ARPABET_VOWELS.keys() - {'AH0', 'ER0'})})[012]?|{'|'.join(ARPABET_CONSONANTS)}"
ENGLISH_KOKORO_PHONE = rf"[{PRIMARY}{SECONDARY}]?[{''.join(KOKORO_VOWELS)}]ː?|[bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθʔT ]"
# An uppercase letter or a digit, or a mark of stress between the first consonants of a word and their vowel, as in
# Kokoro's phones.
NOT_IPA = re.compile(
    rf"[A-Z0-9]|(?:^|(?<=\s))[^\s{PRIMARY}{SECONDARY}aeiouyøœɶɑɒæɐɛɜɞɘɤəɚɝɨɪʉʊʌʏɯɵɔᵊᵻ\u0329]+[{PRIMARY}{SECONDARY}]"
)
DESCRIPTIONS = {
    "arpabet": "ARPABET: AA to ZH with spaces between them, and 0, 1 or 2 directly after a vowel",
    "kokoro": f"Kokoro's phones, with {PRIMARY} or {SECONDARY} directly before a vowel",
    "ipa": f"IPA, with {PRIMARY} or {SECONDARY} before the first consonant of a syllable",
}
ONSETS = frozenset(
    "b tʃ d ð f ɡ h dʒ k l m n p ɹ s ʃ t θ v w j z ʒ ɾ ʔ "
    "pɹ tɹ kɹ bɹ dɹ ɡɹ fɹ θɹ ʃɹ pl kl bl ɡl fl sl tw dw kw ɡw θw sw sp st sk sm sn sf "
    "pj bj kj mj fj vj hj spɹ stɹ skɹ spl skl skw spj skj".split()
)

# The names of the letters, and last the article "a".
LETTER_NAMES = {
    ("en-us", "arpabet"): "EY1|B IY1|S IY1|D IY1|IY1|EH1 F|JH IY1|EY1 CH|AY1|JH EY1|K EY1|EH1 L|EH1 M|EH1 N|OW1|P IY1|"
    "K Y UW1|AA1 R|EH1 S|T IY1|Y UW1|V IY1|D AH1 B AH0 L Y UW0|EH1 K S|W AY1|Z IY1|AH0",
    ("en-us", "kokoro"): "ˈA|bˈi|sˈi|dˈi|ˈi|ˈɛf|ʤˈi|ˈAʧ|ˈI|ʤˈA|kˈA|ˈɛl|ˈɛm|ˈɛn|ˈO|pˈi|kjˈu|ˈɑɹ|ˈɛs|tˈi|jˈu|vˈi|"
    "dˈʌbᵊlju|ˈɛks|wˈI|zˈi|ɐ",
    ("en-gb", "kokoro"): "ˈA|bˈiː|sˈiː|dˈiː|ˈiː|ˈɛf|ʤˈiː|ˈAʧ|ˈI|ʤˈA|kˈA|ˈɛl|ˈɛm|ˈɛn|ˈQ|pˈiː|kjˈuː|ˈɑː|ˈɛs|tˈiː|jˈuː|"
    "vˈiː|dˈʌbᵊljuː|ˈɛks|wˈI|zˈɛd|ɐ",
}
# "the" before a vowel and before another sound; misaki's dictionary of American English has only the first.
THE = {"arpabet": ("DH IY0", "DH AH0"), "kokoro": ("ði", "ðə")}
# Endings of the plural and the possessive: after a sibilant, after another voiceless consonant, after all others. Then
# that of "they're".
ENDINGS = {
    ("en-us", "arpabet"): ("IH0 Z", "S", "Z", "ER0"),
    ("en-us", "kokoro"): ("ᵻz", "s", "z", "əɹ"),
    ("en-gb", "kokoro"): ("ɪz", "s", "z", "ə"),
    ("en-us", "ipa"): ("ɪz", "s", "z", "ɚ"),
    ("en-gb", "ipa"): ("ɪz", "s", "z", "ə"),
}
SIBILANTS = frozenset("S Z SH ZH CH JH s z ʃ ʒ ʧ ʤ".split())
VOICELESS = frozenset("P T K F TH p t k f θ ʔ".split())
VOWELS = KOKORO_VOWELS.union(*ARPABET_VOWELS.values())  # characters of Kokoro's vowels and of IPA's


def letter_names(accent: str, phone_set: str) -> dict[str, Phones]:
    """The names of the letters, and under "a" the article; empty for IPA, which is made from the other sets."""
    names = LETTER_NAMES.get((accent, phone_set))
    if names is None:
        return {}
    return dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZa", (split(name, phone_set) for name in names.split("|")), strict=True))


def split(pronunciation: str, phone_set: str) -> Phones:
    """The phones of a pronunciation; those of ARPABET have spaces between them, those of Kokoro carry their marks."""
    if phone_set == "arpabet":
        return tuple(pronunciation.split())
    return tuple(re.findall(KOKORO_PHONE, pronunciation) if phone_set == "kokoro" else pronunciation)


def written(phones: Phones, source: str, phone_set: str) -> str:
    """Phones of the set ``source`` as a pronunciation in ``phone_set``: the same, or IPA.

    Raises:
        ValueError: a phone without IPA.
    """
    if source == phone_set == "arpabet":
        return " ".join(phones)
    if source == phone_set:
        return "".join(phones).translate(AS_MISAKI_PRINTS) if source == "kokoro" else "".join(phones)
    if source == "arpabet":
        return _with_stress_marks([_arpabet_to_ipa(phone) for phone in phones])
    return " ".join(_with_stress_marks(_kokoro_to_ipa(word)) for word in "".join(phones).split(" "))


def ipa_phones(phones: Phones, source: str) -> list[str]:
    """The IPA of every phone of the set ``source``, with the mark of stress directly before its vowel.

    Raises:
        ValueError: a phone without IPA.
    """
    bare = "".join(phones).replace(" ", "")
    sounds = [_arpabet_to_ipa(phone) for phone in phones] if source == "arpabet" else _kokoro_to_ipa(bare)
    return [f"{stress or ''}{sound}" for sound, stress in sounds]


def arpabet_as_kokoro(phones: Phones) -> Phones:
    """American ARPABET in Kokoro's phones, which is close to what misaki's dictionary would have."""
    found = ""
    for phone, following in zip(phones, (*phones[1:], ""), strict=True):
        bare = phone.rstrip("012")
        sound = ARPABET_AS_KOKORO.get(phone) or ARPABET_AS_KOKORO.get(bare) or ARPABET_VOWELS.get(bare)
        sound = sound or ARPABET_CONSONANTS[bare]
        found += STRESS.get(phone[-1], "") + (sound[:-1] if bare == "ER" and following == "R" else sound)
    return split(found, "kokoro")


def without_stress(phones: Collection[str]) -> Phones:
    """The phones without digits and marks of stress."""
    stripped = (phone.strip("012" + PRIMARY + SECONDARY) for phone in phones)
    return tuple(phone for phone in stripped if phone)


def spelled(names: list[Phones]) -> Phones:
    """The names of an initialism's letters as one word: the last has the primary stress, the others a secondary one."""
    weaker = str.maketrans({"1": "2", PRIMARY: SECONDARY})
    first = [phone.translate(weaker) for name in names[:-1] for phone in name]
    return (*first, *names[-1])


def with_ending(phones: Phones, ending: str, accent: str, phone_set: str) -> Phones:
    """A word with the ending of a plural or a possessive (s, 's, ') or a contraction ('d, 'll, 've, 're, 'm)."""
    letters = ending.lower().strip("'")
    is_arpabet = phone_set == "arpabet"
    last = phones[-1].rstrip("012") if is_arpabet else phones[-1][-1]
    *of_s, of_re = ENDINGS[accent, phone_set]
    if letters == "s":
        added = of_s[0 if last in SIBILANTS else 1 if last in VOICELESS else 2]
    elif letters == "re":
        added = of_re
    else:
        schwa = "" if not letters or is_vowel(phones[-1], phone_set) else "AH0 " if is_arpabet else "ə"
        added = schwa + (letters[:1].upper() if is_arpabet else letters[:1])
    return (*phones, *split(added, phone_set))


def is_vowel(phone: str, phone_set: str) -> bool:
    """Whether a phone is a vowel, or the mark of a long one."""
    bare = phone.strip(f"012ː{PRIMARY}{SECONDARY}")
    return bare in ARPABET_VOWELS if phone_set == "arpabet" else not bare or bare in VOWELS


def wrong_phone(phones: Collection[str], phone_set: str) -> str | None:
    """The first phone that is certainly not one of ``phone_set``; the stress of vowels may be left out."""
    if phone_set == "ipa":
        decomposed = unicodedata.normalize("NFD", "".join(phones))
        return found[0].strip() if (found := NOT_IPA.search(decomposed)) else None
    form = {"arpabet": ARPABET_PHONE, "kokoro": ENGLISH_KOKORO_PHONE}[phone_set]
    return next((phone for phone in phones if not re.fullmatch(form, phone)), None)


def are_arpabet(phones: Collection[str]) -> bool:
    """Whether phones are all of ARPABET, with stress or without."""
    return wrong_phone(phones, "arpabet") is None


def english_set(phones: Collection[str]) -> str | None:
    """The phones of a model of English: those of ARPABET, or those of Kokoro with the tokens of accents; else None."""
    if are_arpabet(phones):
        return "arpabet"
    accents, silver = ({token[1:-1] for token in tokens.values()} for tokens in (ACCENT_TOKENS, SILVER_TOKENS))
    is_kokoro = accents & {*phones} and all(re.fullmatch(KOKORO_PHONE, phone) for phone in {*phones} - accents - silver)
    return "kokoro" if is_kokoro else None


def _arpabet_to_ipa(phone: str) -> tuple[str, str | None]:
    """The sound, and the stress mark of a vowel; None for a consonant."""
    base, stress = phone.rstrip("012"), phone[-1:] if phone[-1:] in STRESS else ""
    if base in ARPABET_VOWELS:
        return ARPABET_VOWELS.get(phone) or ARPABET_VOWELS[base], STRESS.get(stress, "")
    if phone not in ARPABET_CONSONANTS:
        raise ValueError(f"{phone!r} is not a phone of ARPABET, so it has no IPA")
    return ARPABET_CONSONANTS[phone], None


def _kokoro_to_ipa(word: str) -> list[tuple[str, str | None]]:
    return [
        (KOKORO.get(phone, phone) + length, stress if phone in KOKORO_VOWELS else None)
        for stress, phone, length in re.findall(rf"([{PRIMARY}{SECONDARY}]?)(.)(ː?)", word)
    ]


def _with_stress_marks(sounds: list[tuple[str, str | None]]) -> str:
    """The sounds as one string, each mark before the syllable of its vowel."""
    marked: list[str] = []
    for place, (sound, stress) in enumerate(sounds):
        marked.append(sound)
        if not stress:
            continue
        start = place
        while start and sounds[start - 1][1] is None:
            onset = "".join(consonant for consonant, _ in sounds[start - 1 : place])
            is_first = all(mark is None for _, mark in sounds[:start])  # no vowel before it: the word's first syllable
            if onset not in ONSETS and not is_first:
                break
            start -= 1
        marked[start] = stress + marked[start]
    return "".join(marked)
