"""Grade a student's code: run it in a process of its own, give points for its properties, and write a grader's format.

No module here imports torch, except that of the process of its own.
"""

from .assignment import Assignment
from .notebook import expect

__all__ = ["Assignment", "expect"]
