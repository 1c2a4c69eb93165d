"""Attention code checked by its properties: which of them fail, and what the fault is called."""

from .checker import KINDS
from .report import FAULTS, Finding, Report
from .subject import CannotCallError

__all__ = ["FAULTS", "KINDS", "CannotCallError", "Finding", "Report"]
