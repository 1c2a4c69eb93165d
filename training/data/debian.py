"""The descriptions of Debian's packages, in the folder that ``python -m attnzoo.training.make_data.debian`` writes."""

from .known import KnownData
from .licenses import License, Origin

FREE_SOFTWARE = License(
    name="debian-package-descriptions",
    commercial=True,
    url="https://www.debian.org/social_contract#guidelines",
    terms="Every description is under the licence of its package, and all licences in main follow Debian's guidelines: "
    '"The license of a Debian component may not restrict any party from selling or giving away the software as a '
    'component of an aggregate software distribution containing programs from several different sources."',
)


DEBIAN = KnownData(
    path=r"(.*/)?debian",
    name="descriptions of Debian's packages",
    license=FREE_SOFTWARE,
    sources=(
        Origin(
            name="descriptions of the packages of Debian, main, each under the licence of its package",
            version="12",
            license=FREE_SOFTWARE,
            url="https://packages.debian.org/bookworm/",
        ),
    ),
    language="en",
    source="from the lists of [Debian's packages](https://packages.debian.org/) that `apt-get update` downloads "
    "(`python -m attnzoo.training.make_data.debian` makes the rows)",
    limits="English descriptions of software packages. A summary may contain false statements, such as the name of "
    "another program.",
)
