"""The part of the package's metadata that depends on where the repository is.

``ATTNZOO_REPOSITORY_URL`` is the one setting: the address of the repository, such as https://github.com/owner/attnzoo.
With it the metadata links to the repository, and the README's relative links and pictures lead there. Without it those
links become plain text and the pictures are left out, since they would be broken on a package index.
"""

import os
import re
from pathlib import Path

from setuptools import setup

RELATIVE = r"\]\((?!https?://|#)([^)\s]+)\)"


def long_description(readme: str, repository: str) -> str:
    """The README with its relative links and pictures made absolute, or left out where ``repository`` is empty."""
    if not repository:
        readme = re.sub(rf"!\[[^\]]*{RELATIVE}\n*", "", readme)
        return re.sub(rf"\[([^\]]*){RELATIVE}", r"\1", readme)
    readme = re.sub(rf"(!\[[^\]]*){RELATIVE}", rf"\1]({repository}/raw/main/\2)", readme)
    return re.sub(RELATIVE, rf"]({repository}/blob/main/\1)", readme)


if __name__ == "__main__":
    url = os.environ.get("ATTNZOO_REPOSITORY_URL", "").rstrip("/")
    setup(
        long_description=long_description(Path("README.md").read_text(encoding="utf-8"), url),
        long_description_content_type="text/markdown",
        project_urls={"Source": url, "Issues": f"{url}/issues"} if url else {},
    )
