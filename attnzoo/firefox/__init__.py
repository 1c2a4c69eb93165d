"""Firefox's translation models: read, written, and compared with Mozilla's engine.

The files are Marian's ``.bin`` and ``.npz`` with their options, and SentencePiece's ``.spm``.
"""

from .students import load

__all__ = ["load"]
