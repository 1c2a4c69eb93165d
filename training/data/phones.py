# ruff: noqa: RUF001, SIM905 (tables of phones)
"""Marks of stress, the phones of ARPABET and the tokens of misaki's accents.

``attnzoo.pronunciation.phone_sets`` has them, too. Importing it would import the normaliser of English texts, which no
task needs. A test compares the two.
"""

import re
from collections.abc import Collection

from attnzoo.phonemes import OPEN

PRIMARY, SECONDARY = "ˈ", "ˌ"
ACCENT_TOKENS = {"en-us": "⟦us⟧", "en-gb": "⟦gb⟧"}  # of misaki's gold entries
SILVER_TOKENS = {accent: token.replace(OPEN, f"{OPEN}silver") for accent, token in ACCENT_TOKENS.items()}
KOKORO_PHONE = re.compile(f"[{PRIMARY}{SECONDARY}]?.ː?")  # a vowel is one phone with its stress and its length
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
ARPABET_PHONE = re.compile(rf"({'|'.join(VOWELS)})[012]?|{'|'.join(CONSONANTS)}")


def are_arpabet(phones: Collection[str]) -> bool:
    """Whether phones are all of ARPABET, with stress or without."""
    return all(map(ARPABET_PHONE.fullmatch, phones))


def without_stress(phones: Collection[str]) -> list[str]:
    """The phones without digits and marks of stress."""
    stripped = (phone.strip("012" + PRIMARY + SECONDARY) for phone in phones)
    return [phone for phone in stripped if phone]
