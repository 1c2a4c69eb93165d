"""The tasks, one file each: load, tokenize, collate, score."""

from typing import TYPE_CHECKING

from .grapheme_to_phoneme import GraphemeToPhoneme

if TYPE_CHECKING:
    from ..recipe import Recipe  # which reads a task's keys with the classes here

TASKS = {"grapheme_to_phoneme": GraphemeToPhoneme}


def make_task(recipe: "Recipe") -> GraphemeToPhoneme:
    """The task of a recipe, its data read.

    Raises:
        ValueError: its data is unsound.
        FileNotFoundError: its data is not there.
    """
    return TASKS[recipe.task.name](recipe.task.data)
