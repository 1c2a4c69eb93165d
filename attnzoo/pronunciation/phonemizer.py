"""The function ``phonemize`` of the package phonemizer (Bernard and Titeux, 2021), with its arguments, without espeak.

    from attnzoo.pronunciation.phonemizer import Separator, phonemize  # instead of "from phonemizer import phonemize"

The symbols are those of this package, not espeak's: "docs/speech.md" has the differences.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, overload

from ..phone_sets import PRIMARY, SECONDARY, SOURCE_OF_IPA, ipa_phones
from .misaki import kept_pronouncer
from .options import iterator_of, texts_of
from .spoken import Word, warn_of_unknown

# Arguments of phonemizer that do not change the result: there are no switches of language and no processes.
WITHOUT_EFFECT = frozenset(["language_switch", "words_mismatch", "njobs", "logger"])

NO_MARKS = str.maketrans("", "", PRIMARY + SECONDARY)


class Separator(NamedTuple):
    """What is written after a word, a syllable and a phone. As with espeak, there are no syllables."""

    word: str = " "
    syllable: str = ""
    phone: str = ""


@overload
def phonemize(text: str, language: str = ..., **options: Any) -> str: ...
@overload
def phonemize(text: Iterable[str], language: str = ..., **options: Any) -> list[str]: ...
def phonemize(
    text: str | Iterable[str],
    language: str = "en-us",
    backend: str = "espeak",
    separator: Any = Separator(),  # noqa: B008  # a tuple, which nobody changes
    strip: bool = False,
    *,
    preserve_empty_lines: bool = False,
    preserve_punctuation: bool = False,
    with_stress: bool = False,
    model: str | Path | None = None,
    **others: Any,
) -> str | list[str]:
    """The phonemes of a text in IPA, a line for every line; of several texts, a list with one for each.

    The defaults are phonemizer's: no punctuation, no stress, and a separator at the end. The mark of stress is directly
    before its vowel, as espeak writes it. Words without a pronunciation are left out, with a warning.

    Args:
        text: a text, perhaps of several lines, or several texts
        language: "en-us", "en-gb", or as for :class:`~attnzoo.pronunciation.Pronouncer`
        backend: only "espeak", which stands for IPA
        separator: this module's, or phonemizer's
        strip: leave out the separators at the ends of words and lines
        preserve_empty_lines: an empty text or line gives an empty one; else it is left out
        preserve_punctuation: keep punctuation
        with_stress: keep the marks of stress
        model: another model of several languages
        others: arguments of phonemizer without effect here: ``language_switch``, ``words_mismatch``, ``njobs``,
            ``logger``

    Raises:
        ValueError: another backend, no text, or for the reasons of ``Pronouncer``.
        TypeError: an argument that phonemizer does not have, or one that is not supported: ``prepend_text``,
            ``punctuation_marks`` and ``tie``.
    """
    if refused := sorted(others.keys() - WITHOUT_EFFECT):
        raise TypeError(f"phonemize does not support the argument {refused[0]!r} of phonemizer; leave it out")
    if backend != "espeak":
        raise ValueError(f"backend must be 'espeak', which stands for IPA, got {backend!r}")
    is_english = model is None and language in SOURCE_OF_IPA
    pronouncer = kept_pronouncer(language if is_english else None, "ipa", model, None if is_english else language)
    source = SOURCE_OF_IPA[language] if is_english else None
    lines = text.splitlines() if isinstance(text, str) else texts_of(iterator_of(text))
    lines = [line for line in lines if preserve_empty_lines or line.strip()]
    spoken = pronouncer(lines)
    warn_of_unknown(chain(*spoken))
    known = [[word for word in words if word.source != "unknown"] for words in spoken]
    found = [_line(words, source, separator, strip, preserve_punctuation, with_stress) for words in known]
    return "\n".join(found) if isinstance(text, str) else found


def _line(
    words: Sequence[Word], source: str | None, separator: Any, strip: bool, with_punctuation: bool, with_stress: bool
) -> str:
    """The words of a text as one string, where ``source`` is the phone set of English words."""
    word_end, phone_end = separator.word or "", separator.phone or ""
    kept = [word for word in words if with_punctuation or word.source != "punctuation"]
    line = ""
    for word, following in zip_longest(kept, kept[1:]):
        if word.source == "punctuation":
            line += str(word.phonemes)
        else:
            spoken = (_phones(phones, source, with_stress) for phones in word.phones)
            line += word_end.join(phone_end.join(phones) + ("" if strip else phone_end) for phones in spoken)
        is_beside_mark = following is not None and "punctuation" in (word.source, following.source)
        line += word_end if word.space or not is_beside_mark else ""
    return line.removesuffix(word_end) if strip else line


def _phones(phones: tuple[str, ...], source: str | None, with_stress: bool) -> list[str]:
    """The phones in IPA, one by one."""
    found = ipa_phones(phones, source) if source else list(phones)
    return found if with_stress else [phone.translate(NO_MARKS) for phone in found]
