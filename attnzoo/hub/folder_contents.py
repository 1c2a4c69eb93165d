"""Which files of a folder are pushed to the Hub, and why the others are not.

A folder may also hold private files: a token, data, logs, the state of an optimizer. So only files of the kinds listed
here are pushed, and files that the caller names.
"""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

WEIGHTS = ("model.safetensors", "model-?????-of-?????.safetensors", "model.safetensors.index.json")
ADAPTER = ("adapter_model.safetensors", "adapter_config.json")
TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "chat_template.json", "vocab.json", "vocab.txt", "merges.txt"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "*.spm"),
)
ABOUT = ("README.md", "LICENSE", "LICENSE.md", "LICENSE.txt", "recipe.yaml", "record.json", "run.json")
RESULTS = ".eval_results"  # the folder in which the Hub looks for figures
KNOWN = ("config.json", "generation_config.json", *WEIGHTS, *ADAPTER, *TOKENIZER, *ABOUT)
PICTURES = ("*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp", "*.svg")
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.joblib", "*.dill")
CODE = (
    "*.py",
    "*.py[cdowx]",
    "*.ipynb",
    "*.so",
    "*.so.*",
    "*.dll",
    "*.dylib",
    "*.exe",
    "*.sh",
    "*.bat",
    "*.ps1",
    "*.jar",
)
# How programs and libraries of Linux, Windows and macOS, scripts, and pickles begin.
PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!")
PICKLED = tuple(b"\x80%c" % protocol for protocol in range(2, 6))


@dataclass(frozen=True)
class Contents:
    """The files of a folder, divided into those to push and the others.

    Attributes:
        sent: the paths of the files to push, in alphabetical order.
        kept: the names of the other entries, each with the reason why it is not pushed.
    """

    sent: list[str]
    kept: dict[str, str]


def contents(folder: str | Path, also: Iterable[str] = ()) -> Contents:
    """Divide a folder into what :func:`attnzoo.hub.push` sends and what it does not send.

    It sends the card and the pictures that it shows, the configs, the tokenizer, the weights in safetensors with their
    index, an adapter, the licence, ``recipe.yaml``, ``record.json``, ``run.json``, the figures in ``.eval_results``,
    and the files named in ``also``.

    A hard link is a plain file: nothing tells where its other names are, so it is sent if its own name is one to send.

    Args:
        folder: the folder to push
        also: names of other files at the top of the folder to push as well

    Raises:
        FileNotFoundError: the folder lacks a config, a card or safetensors, or a file of ``also``.
        ValueError: a file to push is a broken link or a link out of the folder; a file of ``also`` is a pickle or
            code, or is not at the top of the folder.
    """
    folder = Path(folder)
    for name in ("config.json", "README.md"):
        if not (folder / name).is_file() and not (folder / name).is_symlink():
            raise FileNotFoundError(f"{folder} has no {name}; a model is pushed with its config and its card")
    also = set(also)
    for name in sorted(also):
        _require_sendable(folder, name)
    wanted = also | _shown_pictures(folder / "README.md")
    sent, kept = [], {}
    for path in sorted(folder.iterdir()):
        is_wanted = path.name in wanted or is_one_of(path.name, KNOWN)
        if is_wanted and (path.is_file() or path.is_symlink()):
            sent.append(path.name)
        elif path.name == RESULTS and path.is_dir() and not path.is_symlink():
            for file in sorted(path.iterdir()):
                name = f"{RESULTS}/{file.name}"
                if file.suffix == ".yaml" and (file.is_file() or file.is_symlink()):
                    sent.append(name)
                else:
                    kept[name] = _reason(file)
        else:
            kept[path.name] = _reason(path)
    _refuse_links_out(folder, sent)
    if not any(is_one_of(name, ("*.safetensors",)) for name in sent):
        raise FileNotFoundError(f"{folder} has no safetensors of a model; write it with save_pretrained")
    return Contents(sent, kept)


def is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether this is the name of a file at the top of a folder that matches one of the patterns."""
    return "/" not in name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def printable(name: str) -> str:
    """A file's name in one line, with any characters."""
    return name if name.isprintable() else repr(name)


def _require_sendable(folder: Path, name: str) -> None:
    if Path(name).name != name:
        raise ValueError(f"also={name!r} is not the name of a file at the top of {folder}")
    if not (folder / name).is_file():
        raise FileNotFoundError(f"{folder} has no file {name!r}, which also= names")
    with (folder / name).open("rb") as file:
        start = file.read(4)
    if is_one_of(name.lower(), PICKLES) or start.startswith(PICKLED):
        raise ValueError(f"also={name!r} is a pickle, which runs code where it is loaded; send safetensors")
    if is_one_of(name.lower(), CODE) or start.startswith(PROGRAMS):
        raise ValueError(f"also={name!r} is code; only attnzoo's own code is sent, with code=True (--code)")


def _shown_pictures(card: Path) -> set[str]:
    """The files that a card shows as pictures."""
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    shown = re.findall(r"!\[[^\]]*\]\(\s*<?([^)>\s]+)", text) + re.findall(r"<img[^>]*\ssrc=[\"']([^\"']+)", text)
    return {name for name in shown if is_one_of(name.lower(), PICTURES)}


def _reason(path: Path) -> str:
    """Why an entry of the folder is not pushed."""
    name = path.name.lower()
    reasons = {
        "a link to nothing": not path.exists(),
        "a folder": path.is_dir(),
        "not a plain file": not path.is_file(),
        "hidden": name.startswith("."),
        "a pickle, which runs code where it is loaded": is_one_of(name, PICKLES),
        "code; only attnzoo's own code is sent, with code=True (--code)": is_one_of(name, CODE),
        "a picture that the card does not show": is_one_of(name, PICTURES),
    }
    return next((reason for reason, holds in reasons.items() if holds), "of an unknown kind")


def _refuse_links_out(folder: Path, names: list[str]) -> None:
    links = {printable(name): folder / name for name in names if (folder / name).is_symlink()}
    if dangling := [name for name, path in links.items() if not path.is_file()]:
        raise ValueError(f"{folder} has links that lead nowhere: {', '.join(dangling)}")
    targets = {name: path.resolve() for name, path in links.items()}
    if out := [f"{name} -> {to}" for name, to in targets.items() if not to.is_relative_to(folder.resolve())]:
        raise ValueError(f"{folder} has links that lead out of it: {', '.join(out)}; put the files themselves there")
