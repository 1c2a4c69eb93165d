"""The tasks, one file each: load, tokenize, collate, score."""

from ..recipe import Recipe
from .grapheme_to_phoneme import GraphemeToPhoneme

TASKS = {"grapheme_to_phoneme": GraphemeToPhoneme}


def make_task(recipe: Recipe) -> GraphemeToPhoneme:
    """The task of a recipe, its data read.

    Raises:
        ValueError: there is no task of this name, or its data is unsound.
        FileNotFoundError: its data is not there.
    """
    if recipe.task.name not in TASKS:
        raise ValueError(f"task.name is {recipe.task.name!r}; choose one of: {', '.join(TASKS)}")
    return TASKS[recipe.task.name](recipe.task.data.path)
