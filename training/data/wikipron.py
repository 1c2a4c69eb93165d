"""WikiPron: words of Wiktionary and their pronunciations, in 147 dictionaries of 135 languages.

``python -m attnzoo.training.make_data.wikipron`` makes the files from a clone of the repository.
"""

from .known import KnownData
from .licenses import CC_BY_SA, Origin

WIKIPRON = KnownData(
    path=r"(.*/)?wikipron",
    name="WikiPron, 147 dictionaries of 135 languages",
    license=CC_BY_SA,
    sources=(
        Origin(
            name="WikiPron, the pronunciations of Wiktionary",
            version="commit 185dfcf",
            license=CC_BY_SA,
            url="https://github.com/CUNY-CL/wikipron",
        ),
    ),
    source="[WikiPron](https://github.com/CUNY-CL/wikipron) ([Lee et al., 2020]"
    "(https://aclanthology.org/2020.lrec-1.521)), which has the pronunciations of Wiktionary "
    "(`python -m attnzoo.training.make_data.wikipron` makes the files)",
    limits="Single words in IPA, with the conventions of Wiktionary, which differ between languages. A word begins "
    "with the name of a dictionary, such as ⟦hun_latn⟧; `attnzoo.pronunciation` puts it there.",
)
