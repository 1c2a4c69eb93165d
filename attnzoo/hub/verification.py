"""Verify that a repository arrived as it was sent: checksums, bytes, and the outputs of its model.

A flipped bit passes every client of the Hub, since these compare sizes only.
"""

import filecmp
import functools
import os
import subprocess
import sys
from pathlib import Path

import torch
from huggingface_hub import snapshot_download

from .access import answering, client


def verify(
    repo_id: str, revision: str | None = None, *, cache_dir: str | Path | None = None, token: str | None = None
) -> Path:
    """Download a repository, or take it from the cache, and compare every file with the Hub's checksum.

    Returns:
        The folder of the verified files, for ``from_pretrained``.

    Raises:
        OSError: a file differs from its checksum, is missing, or does not belong to the repository; the repository or
            revision does not exist; or the Hub does not answer.
        ValueError: HF_ENDPOINT contains a password.
    """
    folder, wrong = download(repo_id, revision, cache_dir, token)
    if wrong:
        cache = "" if cache_dir is None else f", cache_dir={str(cache_dir)!r}"
        raise OSError(
            f"{repo_id} did not arrive as the Hub has it: {'; '.join(wrong)}. Do not load it; download it again with "
            f"snapshot_download({repo_id!r}, revision={folder.name!r}{cache}, force_download=True), and if that does "
            "not help, the Hub's copy is damaged"
        )
    return folder


def download(
    repo_id: str, revision: str | None, cache_dir: str | Path | None, token: str | None
) -> tuple[Path, list[str]]:
    """The folder of a repository's files, and how they differ from the Hub's checksums."""
    api = client(token)
    fetch = functools.partial(snapshot_download, repo_id, revision=revision, cache_dir=cache_dir, token=token)
    try:
        folder = Path(fetch())
    except Exception as error:  # one of the HTTP client, whose classes are not those of huggingface_hub
        if isinstance(error, (OSError, ValueError)):
            raise
        with answering(api):
            folder = Path(fetch())  # once more: the Hub may have closed an idle connection just as it was used
    with answering(api):
        found = api.verify_repo_checksums(repo_id, revision=folder.name, local_dir=folder)
    wrong = [
        f"{item['path']} has the {item['algorithm']} {item['actual']} instead of {item['expected']}"
        for item in found.mismatches
    ]
    wrong += [f"{path} is missing" for path in found.missing_paths]
    return folder, wrong + [f"{path} does not belong to the repository" for path in found.extra_paths]


def files_below(folder: Path) -> list[str]:
    """The paths of all files in a folder and its folders."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def require_arrival(staged: Path, home: Path, repo_id: str, revision: str, token: str | None) -> Path:
    """Download what was pushed and compare every byte; returns the folder."""
    arrived, wrong = download(repo_id, revision, home / "hub", token)
    _, changed, missing = filecmp.cmpfiles(staged, arrived, files_below(staged), shallow=False)
    wrong += [f"{name} is not what was sent" for name in sorted(changed + missing)]
    if wrong:
        raise OSError("; ".join(wrong))
    return arrived


def require_same_outputs(arrived: Path, home: Path, auto_class: str, code: bool) -> None:
    """Have a fresh process load what arrived, and compare the outputs."""
    # PYTHONPATH, since the package need not be installed.
    found = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        "HF_HUB_OFFLINE": "1",  # nothing else is needed
        "HF_MODULES_CACHE": str(home / "modules"),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),  # the same order of sums
        "PYTHONPATH": os.pathsep.join(found),
    }
    program = [sys.executable, "-P", str(Path(__file__).with_name("sample_outputs.py"))]
    program += [str(home / "outputs.safetensors"), auto_class, str(arrived), "code" if code else "package"]
    ended = subprocess.run(program, env=os.environ | settings, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise OSError(f"it does not load as the folder does (exit {ended.returncode}): {ended.stderr.strip()}")
