"""Encode texts word by word, so that a word that occurs often is encoded once."""

import itertools

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from ..data.vocabulary import UNKNOWN, normalizer

SPACE = "\u2581"  # stands for a space, at the start of the subword after it
KEPT = 100_000  # words; above, all are forgotten, since the number of different numbers and names has no limit


def word_tokenizer(normalization: str) -> Tokenizer:
    """Byte pairs inside of words, without a vocabulary yet.

    A word keeps the space before it, and a punctuation mark or digit is a word of its own, so that decoding gives the
    text back unchanged, except for its Unicode form and the width of its spaces.
    """
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [*normalizer(normalization), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement=SPACE)
    return tokenizer


def encodes_by_words(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokens of a text are those of its words and an end token, as :func:`word_tokenizer` makes them."""
    backend = tokenizer.backend_tokenizer
    parts = _parts(backend)
    return (
        any(parts == _parts(word_tokenizer(form)) for form in ("nfc", "nfd"))
        and not any(" " in token for token in tokenizer.get_added_vocab())
        and backend.encode("").ids == backend.encode("a").ids[-1:] == [tokenizer.eos_token_id]
    )


def _parts(backend: Tokenizer) -> tuple[bytes, bytes]:
    parts = backend.normalizer, backend.pre_tokenizer
    return tuple(b"" if part is None else part.__getstate__() for part in parts)  # type: ignore[return-value]


class WordTokens:
    """Encodes texts as a tokenizer does that reads words alone (see :func:`encodes_by_words`), several times faster.

    Args:
        tokenizer: the tokenizer

    Attributes:
        known: the tokens of words that were read before
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.known: dict[str, list[int]] = {}

    def __call__(self, texts: list[str], is_cut: bool = False) -> list[list[int]]:
        """The token ids of every text; with ``is_cut`` at most the tokenizer's ``model_max_length``."""
        if len(self.known) > KEPT:
            self.known.clear()
        # Metaspace adds no space before a word that begins with its own sign: such a text is encoded whole.
        words = [[text] if SPACE in text else text.split(" ") for text in texts]
        new = [word for word in set().union(*words) if word not in self.known]
        backend = self.tokenizer.backend_tokenizer
        backend.encode_special_tokens = self.tokenizer.split_special_tokens  # as every call of the tokenizer sets it
        backend.no_truncation()
        backend.no_padding()
        self.known.update(zip(new, (one.ids for one in backend.encode_batch_fast(new, False, False)), strict=True))
        most, end = self.tokenizer.model_max_length - 1 if is_cut else None, self.tokenizer.eos_token_id
        ids = (list(itertools.chain.from_iterable(map(self.known.__getitem__, of_text))) for of_text in words)
        return [[*of_text[:most], end] for of_text in ids]
