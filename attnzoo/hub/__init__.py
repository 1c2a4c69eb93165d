"""Models on the Hugging Face Hub: push a folder with a model's code, and verify what a repository holds."""

from .access import require_write_access
from .pushing import push
from .verification import verify

__all__ = ["push", "require_write_access", "verify"]
