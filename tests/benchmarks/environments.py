"""One virtual environment per toolkit that attnzoo is measured against, with pinned versions.

    python -m tests.benchmarks.environments            # all of them
    python -m tests.benchmarks.environments joeynmt    # one

They are made in ``.benchmarks/`` at the top of the repository, which git ignores. torch, numpy and all other packages
of the interpreter that runs this script are not installed again: a .pth file makes them visible in every environment,
so that all toolkits run on the same torch. What a toolkit needs in addition is installed by name, since the toolkits
pin versions of torch and protobuf that are years old. For modules that a toolkit imports but does not need here,
``stand_ins/`` has replacements.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".benchmarks"
STAND_INS = Path(__file__).resolve().parent / "stand_ins"


@dataclass(frozen=True)
class Environment:
    """The packages that are installed for a toolkit.

    Attributes:
        toolkit: the toolkit, pinned; installed without its dependencies.
        needs: the other packages that it imports, pinned, except those of the main environment.
        stand_ins: the folder of ``stand_ins/`` with the modules that it imports and does not need here.
        is_source_tree: it does not build with this torch, but its Python files run as they are: they are unpacked.
    """

    toolkit: str
    needs: tuple[str, ...]
    stand_ins: str | None = None
    is_source_tree: bool = False


SACREBLEU = ("sacrebleu==2.6.0", "colorama==0.4.6", "lxml==6.1.3", "portalocker==4.4.2", "tabulate==0.10.0")
OPENNMT = (
    *SACREBLEU,
    "configargparse==1.9.0",
    "ctranslate2==4.8.5",
    "pyonmttok==1.38.1",
    "rapidfuzz==3.14.6",
    "sentencepiece==0.2.3",
    "subword-nmt==0.3.8",
)
PEERS = {
    "joeynmt": Environment(
        "joeynmt==2.3.0",
        (
            *SACREBLEU,
            "importlib_metadata==10.2.0",
            "joblib==1.6.0",
            "mock==5.2.0",
            "narwhals==2.29.0",
            "plotly==7.1.0",
            "sacremoses==0.2.0",
            "sentencepiece==0.2.3",
            "subword-nmt==0.3.8",
            "zipp==4.1.2",
        ),
    ),
    "opennmt": Environment("OpenNMT-py==3.5.1", OPENNMT, stand_ins="opennmt"),
    "fairseq": Environment(
        "fairseq-fixed==0.12.3.1",
        (
            *SACREBLEU,
            "antlr4-python3-runtime==4.9.3",
            "bitarray==3.12.3",
            "cffi==2.1.1",
            "cython==3.3.1",
            "hydra-core==1.3.2",
            "omegaconf==2.3.0",
            "pycparser==3.12",
        ),
        stand_ins="fairseq",
        is_source_tree=True,
    ),
    "eole": Environment("eole==0.6.4", OPENNMT, stand_ins="opennmt"),
    "phonetisaurus": Environment("phonetisaurus==0.3.0", ()),
    "yoyodyne": Environment(
        "yoyodyne==0.5.27",
        (
            "docstring_parser==0.18.0",
            "jsonargparse==4.53.0",
            "lightning==2.6.6",
            "lightning-utilities==0.15.3",
            "maxwell==0.2.6",
            "omegaconf==2.4.0",
            "pytorch-lightning==2.6.6",
            "torchmetrics==1.9.0",
            "typeshed_client==2.15.0",
        ),
        stand_ins="yoyodyne",
    ),
    "gruut": Environment(
        "gruut==2.4.0",
        (
            "gruut-ipa==0.13.0",
            "gruut-lang-fr==2.0.2",
            "gruut-lang-it==2.0.1",
            "gruut-lang-nl==2.0.2",
            "gruut-lang-sv==2.0.1",
            "python-crfsuite==0.9.12",
        ),
    ),
    "g2p-en": Environment("g2p_en==2.1.0", ()),
    "eflomal": Environment("eflomal==2.0.0", ()),
    "espeak": Environment(
        "misaki==0.9.4",
        (
            "babel==2.18.0",
            "csvw==4.1.1",
            "dlinfo==2.0.0",
            "espeakng-loader==0.2.4",
            "isodate==0.7.2",
            "jsonschema==4.26.0",
            "jsonschema-specifications==2025.9.1",
            "language-tags==1.3.2",
            "phonemizer-fork==3.3.2",
            "rdflib==7.6.0",
            "referencing==0.37.0",
            "rfc3986==1.5.0",
            "rpds-py==2026.9.1",
            "segments==2.4.0",
            "termcolor==3.3.0",
            "uritemplate==4.2.0",
        ),
    ),
}


def interpreter(peer: str) -> Path:
    """The Python of a toolkit's environment.

    Raises:
        FileNotFoundError: the environment does not exist, or is incomplete.
    """
    python = ENVIRONMENTS / peer / "bin" / "python"
    if not _made(peer).exists():
        raise FileNotFoundError(f"no environment for {peer}; run: python -m tests.benchmarks.environments {peer}")
    return python


def make(peer: str) -> None:
    """Make the environment of ``peer``, unless it exists with these versions."""
    environment = PEERS[peer]
    content = json.dumps(asdict(environment) | {"made by": sys.executable, "Python": sys.version}, indent=1)
    if _made(peer).exists() and _made(peer).read_text() == content:
        print(f"{peer}: there already")
        return
    print(f"{peer}: making {ENVIRONMENTS / peer}")
    ENVIRONMENTS.mkdir(exist_ok=True)
    (ENVIRONMENTS / ".gitignore").write_text("*\n")
    _run(sys.executable, "-m", "venv", "--clear", ENVIRONMENTS / peer)
    python = ENVIRONMENTS / peer / "bin" / "python"
    site = ENVIRONMENTS / peer / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # The order is that of the names: what is installed here comes first, then the main environment, then stand-ins.
    (site / "1_main_environment.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if environment.stand_ins:
        (site / "2_stand_ins.pth").write_text(f"{STAND_INS / environment.stand_ins}\n")
    if environment.needs:
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", *environment.needs)
    if environment.is_source_tree:
        source = _unpack(python, environment.toolkit, ENVIRONMENTS / peer / "source")
        (site / "0_toolkit.pth").write_text(f"{source}\n")
    else:
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", environment.toolkit)
    _made(peer).write_text(content)


def _unpack(python: Path, toolkit: str, folder: Path) -> Path:
    """Download the source distribution of ``toolkit`` and unpack it; returns its top folder."""
    with TemporaryDirectory() as downloads:
        # Without isolation pip asks the package's setup.py for its name with the torch that is there, and does not
        # download another one for it.
        options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", downloads)
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "setuptools==82.0.1", "wheel==0.46.3")
        _run(python, "-m", "pip", "download", *options, toolkit)
        (archive,) = Path(downloads).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def _made(peer: str) -> Path:
    """The file that is written last. It has the description from which the environment was made."""
    return ENVIRONMENTS / peer / "made.json"


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def main() -> None:
    """Make the environments that are named, or all."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"some of: {', '.join(PEERS)}; all if none is named")
    peers = parser.parse_args().peers or list(PEERS)
    unknown = [peer for peer in peers if peer not in PEERS]
    if unknown:
        parser.error(f"there is no peer {unknown[0]!r}; choose some of: {', '.join(PEERS)}")
    for peer in peers:
        make(peer)


if __name__ == "__main__":
    main()
