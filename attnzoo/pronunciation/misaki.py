"""Drop-ins for other software: a fallback for misaki's G2P, and a function from a text to a string of phonemes."""

from functools import cache
from pathlib import Path
from typing import Any

from .options import require_text
from .pronouncer import Pronouncer
from .spoken import warn_of_unknown

# Ratings of pronunciations for misaki: 4 and 3 are its own gold and silver entries, 2 is espeak's.
RATINGS = {"lexicon": 5, "rules": 3, "dictionary": 3, "model": 2}
ACCENTS = {"us": "en-us", "gb": "en-gb"}


class MisakiFallback:
    """A fallback that misaki calls for words that its dictionary lacks: in Kokoro's phones, without espeak.

        misaki.en.G2P(fallback=MisakiFallback(british=False))

    Args:
        british: as in misaki's ``G2P``
        options: other arguments of :class:`Pronouncer`, such as ``lexicon`` and ``model``
    """

    def __init__(self, british: bool = False, **options: Any) -> None:
        self.pronouncer = Pronouncer("en-gb" if british else "en-us", "kokoro", **options)

    def __call__(self, token: Any) -> tuple[str, int] | tuple[None, None]:
        """The phonemes of ``token.text`` and their rating; ``(None, None)`` for a token without phonemes."""
        (word,) = self.pronouncer.words([token.text])
        if word.phonemes is None or word.source == "punctuation":
            return None, None
        return word.phonemes, RATINGS[word.source]


def phonemize(
    text: str,
    accent: str | None = None,
    phones: str = "ipa",
    model: str | Path | None = None,
    language: str | None = None,
) -> str:
    """The phonemes of a text as one string; see :meth:`Pronouncer.phonemize`. The models stay loaded.

    Args:
        text: English text, or text in ``language``
        accent: "us", "gb" or one of :class:`Pronouncer`; None is "us". For a ``model`` without accents leave it None
        phones: see :class:`Pronouncer`
        model: see :class:`Pronouncer`
        language: see :class:`Pronouncer`

    Raises:
        ValueError: ``text`` is not a string; or for the reasons of :class:`Pronouncer`.
    """
    pronouncer = kept_pronouncer(ACCENTS.get(accent or "", accent), phones, model, language)
    words = pronouncer(require_text(text))
    warn_of_unknown(words)
    return pronouncer.join(words)


@cache
def kept_pronouncer(accent: str | None, phones: str, model: str | Path | None, language: str | None) -> Pronouncer:
    """The pronouncer of these arguments, which stays loaded."""
    return Pronouncer(accent, phones, model=model, language=language)
