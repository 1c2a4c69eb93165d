"""The languages of a model of several: from a language's tag to the dictionaries that the model learned.

The first token of the model's source names a dictionary, as in WikiPron: a language by its code of ISO 639-3, a script
by its code of ISO 15924, and perhaps a dialect: ⟦hun_latn⟧, ⟦hbs_cyrl⟧, ⟦por_latn_bz⟧. A user names a language by a tag
of BCP 47 (hu, sr-Cyrl, pt-BR) or one of these dictionaries.

The file languages.tsv has every language with a code of two letters (ISO 639-1), its code of ISO 639-3, and that of its
macrolanguage, if it is a member of one. ``python -m attnzoo.training.make_data.languages`` writes it.
"""

import re
import reprlib
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files

DICTIONARY = re.compile(r"[a-z]{3}_([a-z]{4})(?:_[a-z]+)?")
RECORDED = re.compile(r"_(?:broad|narrow)(?:_filtered)?$")  # at the end of the name of a file of WikiPron
TAG = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.IGNORECASE)
# The dialects of dictionaries by their regions. 419 is Latin America; Castilian is WikiPron's name of Spain's Spanish.
DIALECTS = {"BR": "bz", "PT": "po", "ES": "ca", "419": "la", "GB": "uk", "US": "us"}
# The codes of scripts that are not the first four letters of Unicode's name.
SCRIPTS = {
    **{"ARMENIAN": "armn", "CYRILLIC": "cyrl", "GREEK": "grek", "GUJARATI": "gujr", "GURMUKHI": "guru", "CJK": "hani"},
    **{"KATAKANA": "kana", "KHMER": "khmr", "KANNADA": "knda", "LAO": "laoo", "LATIN": "latn", "MALAYALAM": "mlym"},
    **{"MYANMAR": "mymr", "ORIYA": "orya", "SYRIAC": "syrc", "TAMIL": "taml", "TIBETAN": "tibt", "TIFINAGH": "tfng"},
}


def dictionaries_among(phones: Iterable[str]) -> list[str]:
    """The names of dictionaries among a tokenizer's phonemes."""
    return sorted(phone for phone in phones if DICTIONARY.fullmatch(phone))


def script_of(text: str) -> str:
    """The script of the first letter of a text, such as "latn"; empty if it has no letter."""
    letters = (letter for letter in text if unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lo"))
    first = next(letters, None)
    name = unicodedata.name(first, "").split(" ")[0] if first else ""
    return SCRIPTS.get(name, name[:4].lower())


def tags_of(known: Iterable[str]) -> list[str]:
    """The languages of dictionaries, with two letters if they can have two."""
    short = {row[1]: row[0] for row in _table()}
    return sorted({short.get(code, code) for code in (name.split("_")[0] for name in known)})


def dictionaries_of(language: str, known: Collection[str]) -> dict[str, str]:
    """The dictionaries of a language, by their script.

    Args:
        language: a tag (hu, sr-Cyrl, pt-BR) or a dictionary (hun_latn, hun_latn_broad)
        known: the dictionaries that there are

    Raises:
        ValueError: it is neither; there is no dictionary of this language or script; or there are several of one
            script, and the language has no region that chooses between them.
    """
    asked = f"language={reprlib.repr(language)}"
    name = RECORDED.sub("", language.lower()) if isinstance(language, str) else ""
    tag = TAG.fullmatch(name.replace("_", "-"))
    if name in known:
        return {name.split("_")[1]: name}
    if not tag:
        raise ValueError(
            f"language must be a tag such as hu, pt-BR or sr-Cyrl, or a dictionary of the model such as "
            f"{min(known)}, got {asked}"
        )
    code, script, region = tag.groups()
    names = (code, *_codes(code))
    of_language = next((some for one in names if (some := [name for name in known if name.startswith(f"{one}_")])), [])
    if not of_language:
        raise ValueError(f"{asked}: the model has no such language; it has {', '.join(tags_of(known))}")
    by_script: dict[str, list[str]] = {}
    for one in sorted(of_language):
        by_script.setdefault(one.split("_")[1], []).append(one)
    if script not in (None, *by_script):
        raise ValueError(f"{asked}: the model has no such script; of this language it has {', '.join(of_language)}")
    if script:
        by_script = {script: by_script[script]}
    dialect = DIALECTS.get((region or "").upper())
    return {one: _of_dialect(alike, dialect, asked) for one, alike in by_script.items()}


def _of_dialect(alike: list[str], dialect: str | None, asked: str) -> str:
    """The dictionary of a dialect among those of one language and script; else that of no dialect, or the only one."""
    of_dialect = [name for name in alike if name.endswith(f"_{dialect}")]
    chosen = of_dialect or [name for name in alike if name.count("_") == 1] or alike
    if len(chosen) > 1:
        raise ValueError(f"{asked} has several dictionaries: {', '.join(alike)}; name one of them as the language")
    return chosen[0]


def _codes(code: str) -> list[str]:
    """The other codes of a language, its own first and then that of its macrolanguage."""
    return next((row[1:] for row in _table() if code in row[:2]), [])


@cache
def _table() -> list[list[str]]:
    """The rows of languages.tsv without its header: codes of two letters and of three, and macrolanguages."""
    lines = (files(__package__) / "languages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [line.split("\t") for line in lines]
