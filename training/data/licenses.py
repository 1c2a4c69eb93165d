"""Licences of data and of the weights that are trained on them, and the origins of data."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class License:
    """A licence, or terms that are none of SPDX's licences.

    Attributes:
        name: the identifier of SPDX, such as "Apache-2.0"; for other terms a name of letters, digits, "-" and ".".
        commercial: whether it allows to redistribute the work and to sell it.
        url: where the terms are.
        terms: a sentence that quotes the decisive words of other terms; None for a licence of SPDX.
    """

    name: str
    commercial: bool
    url: str
    terms: str | None = None

    def metadata(self) -> dict[str, str]:
        """The entries of a card's header, as the Hub spells them."""
        if self.terms is None:
            return {"license": self.name.lower()}
        return {"license": "other", "license_name": self.name, "license_link": self.url}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where data come from.

    Attributes:
        name: the name of the data or of the package.
        version: the version that was used; None where the data have none.
        license: the licence of the data, which may differ from that of the package; None if it is not known.
        url: where the data are.
        sha256: the SHA-256 of the package or file; None for a dataset of the Hub, and for data made of many files.
    """

    name: str
    version: str | None = None
    license: License | None = None
    url: str | None = None
    sha256: str | None = None


def _spdx(name: str) -> License:
    return License(name=name, commercial=True, url=f"https://spdx.org/licenses/{name}.html")


CC_BY_2 = License(name="CC-BY-2.0", commercial=True, url="https://creativecommons.org/licenses/by/2.0/fr/")
APACHE, BSD_2_CLAUSE, CC0, CC_BY, CC_BY_SA, MIT, PDDL = map(
    _spdx, ("Apache-2.0", "BSD-2-Clause", "CC0-1.0", "CC-BY-4.0", "CC-BY-SA-4.0", "MIT", "PDDL-1.0")
)
