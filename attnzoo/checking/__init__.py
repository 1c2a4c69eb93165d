"""Checks of attention code: which properties fail, and the name of each fault."""

from .checker import KINDS
from .report import FAULTS, Finding, Report
from .subject import CannotCallError

__all__ = ["FAULTS", "KINDS", "CannotCallError", "Finding", "Report"]
