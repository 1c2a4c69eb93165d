"""Models on the Hugging Face Hub: push a folder with a model's code, and verify what a repository holds."""

from .push_and_verify import push, require_write_access, verify

__all__ = ["push", "require_write_access", "verify"]
