"""The descriptions of Debian's packages, in the folder that ``python -m attnzoo.training.make_data.debian`` writes."""

import hashlib
from collections.abc import Iterable

from .known import KnownData


def fingerprint(descriptions: Iterable[str], synopses: Iterable[str]) -> str:
    """The SHA-256 of the texts of a split, in hexadecimal: each row's description and synopsis, in their order."""
    whole = hashlib.sha256()
    for description, synopsis in zip(descriptions, synopses, strict=True):
        whole.update(f"{description}\0{synopsis}\0".encode())
    return whole.hexdigest()


DEBIAN = KnownData(
    path=r"(.*/)?debian",
    name="descriptions of Debian's packages",
    license={
        "license": "other",
        "license_name": "debian-package-descriptions",
        "license_link": "https://www.debian.org/legal/licenses/",
    },
    language="en",
    source="from the lists of [Debian's packages](https://packages.debian.org/) that `apt-get update` downloads "
    "(`python -m attnzoo.training.make_data.debian` makes the rows)",
    limits="English descriptions of software packages. A summary may contain false statements, such as the name of "
    "another program.",
)
