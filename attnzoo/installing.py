"""The command that installs attnzoo. Error messages, cards and the pages' install lines all come from here.

``ON_INDEX`` is the one setting to change once all packages are on the package index; then run
``python docs/install_lines.py``, which writes the pages' lines anew.
"""

import shlex

ON_INDEX = False
MODELS = "attnzoo-models"
SHELF = "attnzoo-shelf"
# Of the packages of models that attnzoo does not contain, in a clone.
FOLDERS = {MODELS: "./model_cards", SHELF: "./shelf"}


def pip_install(*extras: str, models: str | None = None) -> str:
    """The command that installs attnzoo with these extras, and the package ``models`` beside it."""
    packages = ["attnzoo" if ON_INDEX else "."]
    if extras:
        packages[0] = f"'{packages[0]}[{','.join(extras)}]'"
    if models is not None:
        packages.append(models if ON_INDEX else FOLDERS[models])
    return f"pip install {' '.join(packages)}{'' if ON_INDEX else '  # in a clone of attnzoo'}"


def pip_install_version(version: str, extra: str) -> str:
    """The command that installs this version of attnzoo with an extra, without a clone."""
    package = f"attnzoo[{extra}]=={version}" if ON_INDEX else f"./attnzoo-{version}-py3-none-any.whl[{extra}]"
    return f"pip install {shlex.quote(package)}"
