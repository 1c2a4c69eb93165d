"""A tokenizer of letters and phonemes, and the normal form of words."""

import re
import unicodedata
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from attnzoo.phonemes import CLOSE, OPEN, bracketed

from ..data.vocabulary import END, PAD, START, finished

ACCENTS = "[\u0300-\u036f]"  # combining characters: Unicode's block for Latin, Greek and Cyrillic
LAST_SIGMA = r"(?<=[\p{L}\p{M}])\u03c3(?!\p{L})"  # Greek has another letter for it at the end of a word
APOSTROPHES = "[\u2018\u2019\u02bc\uff07]"
MAX_TOKENS = 128  # in a word, if the tokenizer truncates; more if the data has longer words


def word_normalizer(form: str, lower_case: bool = True) -> normalizers.Normalizer:
    """The normalizer that runs before words are split into letters: ``form`` is "nfc", "nfd" or "strip_accents"."""
    steps = [normalizers.Replace(Regex(APOSTROPHES), "'"), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    if lower_case:
        steps += [normalizers.Lowercase(), normalizers.Replace(Regex(LAST_SIGMA), "\u03c2")]
    if form == "strip_accents":
        steps += [normalizers.NFD(), normalizers.Replace(Regex(ACCENTS), "")]
    return normalizers.Sequence([*steps, normalizers.NFD() if form == "nfd" else normalizers.NFC()])


def accents(letters: Iterable[str]) -> list[str]:
    """The accents of these letters."""
    return re.findall(ACCENTS, unicodedata.normalize("NFD", "".join(letters)))


def letter_phoneme_tokenizer(
    letters: Iterable[str], phonemes: Iterable[str], normalizer: normalizers.Normalizer, max_tokens: int = MAX_TOKENS
) -> PreTrainedTokenizerFast:
    """One tokenizer for words, ``tokenizer("cat")``, and pronunciations, ``tokenizer("⟦K⟧⟦AE⟧⟦T⟧")``.

    The first ids are those of the special tokens, then of the letters, then of the phonemes, in the given orders.
    Phonemes in brackets are split off before the rest is normalised. Other text, even the name of a special token, is
    split into single letters. There is no unknown token: a text with any other character raises an error.
    """
    vocabulary = {token: i for i, token in enumerate([PAD, START, END, *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m)."), behavior="isolated")
    spaces = decoders.Replace(OPEN, ""), decoders.Replace(CLOSE, " "), decoders.Fuse()
    tokenizer.decoder = decoders.Sequence([*spaces, decoders.Replace(Regex(" $"), "")])
    tokenizer.add_tokens([AddedToken(bracketed(phoneme), lstrip=True, normalized=False) for phoneme in phonemes])
    return finished(tokenizer, (PAD, START, END), f"$A {END}", split_special_tokens=True, model_max_length=max_tokens)
