"""Firefox's translation models: read, written, and compared with Mozilla's engine.

The files are Marian's ``.bin`` and ``.npz`` with their options, and SentencePiece's ``.spm``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..installing import pip_install

if TYPE_CHECKING:
    from .students import load

__all__ = ["load"]

MODULES = {"load": "students"}  # needs other libraries, so it is imported when it is used

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}; {pip_install('firefox')}", name=error.name) from error
