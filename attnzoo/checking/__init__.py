"""Checks of attention code: which properties fail, and the name of each fault."""

from .options import KINDS, OptionError
from .report import FAULTS, Finding, Report
from .subject import CannotCallError

__all__ = ["FAULTS", "KINDS", "CannotCallError", "Finding", "OptionError", "Report"]
