"""The command that installs attnzoo. Error messages, cards and the pages' install lines all come from here.

``ON_INDEX`` is the one setting to change once both packages are on the package index; then run
``python docs/install_lines.py``, which writes the pages' lines anew.
"""

ON_INDEX = False


def pip_install(*extras: str, models: bool = False) -> str:
    """The command that installs attnzoo with these extras, and with ``models`` the models that it does not contain."""
    packages = ["attnzoo", "attnzoo-models"] if ON_INDEX else [".", "./model_cards"]
    if extras:
        packages[0] = f"'{packages[0]}[{','.join(extras)}]'"
    where = "" if ON_INDEX else "  # in a clone of attnzoo"
    return f"pip install {' '.join(packages if models else packages[:1])}{where}"
