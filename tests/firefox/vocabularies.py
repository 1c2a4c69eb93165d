"""Vocabularies that SentencePiece learns from the documentation, and texts of all kinds."""

import functools
import io
import random
import unicodedata
from pathlib import Path
from typing import Any

import sentencepiece

ROOT = Path(__file__).parents[2]
# As Firefox has it; without normalising, where letters are unknown; and with pieces that overlap, and spaces that stay.
VOCABULARIES: dict[str, dict[str, Any]] = {
    "nmt_nfkc": {
        "byte_fallback": True,
        "split_digits": True,
        "user_defined_symbols": "__source__,__target__,__done__,__start__,__end__",
    },
    "identity": {"normalization_rule_name": "identity", "vocab_size": 700},
    "user-defined": {
        "normalization_rule_name": "nmt_nfkc_cf",
        "byte_fallback": True,
        "user_defined_symbols": "<b>,</b>,__sep__,html,ab,bcd",
        "remove_extra_whitespaces": False,
    },
}
LETTERS = "äöüßéñçøłŽ日本語한국ابгде"
PIECES = [*"abcdefgh ABC   012.,!?€½ﬁⅣのㄱ😀\t \u3000\u00a0\u200b\u00ad'\"-▁_<>/s\0\x07\ufffd", *LETTERS]
PIECES += [
    "__source__",
    "__sep__",
    "<b>",
    "abcd",
    "</s>",
    "<0x41>",
    "<unk>",
    "<0x4",
    "..",
    "\r\n",
    "\n",
    "ﾊﾟ",
    "e\u0301",
]


def lines() -> list[str]:
    """The lines of the documentation."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [line for file in files for line in file.read_text(encoding="utf-8").split("\n")]


@functools.cache
def vocabulary(name: str) -> bytes:
    """The file of a vocabulary of 1,000 pieces: 0 is the end of a text, 1 is unknown."""
    draw = random.Random(0)
    sentences = [line for line in lines() if line.strip()]
    sentences += ["".join(draw.choice(LETTERS + " abc") for _ in range(20)) for _ in range(200)]
    options = {"vocab_size": 1000, "character_coverage": 1.0, "bos_id": -1, "eos_id": 0, "unk_id": 1, "pad_id": -1}
    options |= VOCABULARIES.get(name, {})
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=content, minloglevel=2, **options
    )
    return content.getvalue()


def texts(count: int, seed: int = 0) -> list[str]:
    """Texts of all kinds: a third lines of the documentation, the others of odd pieces, some of them decomposed."""
    draw = random.Random(seed)
    found = draw.sample(lines(), count // 3)
    while len(found) < count:
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(0, 40)))
        found.append(unicodedata.normalize(draw.choice(["NFC", "NFD"]), text) if draw.random() < 0.5 else text)
    return found
