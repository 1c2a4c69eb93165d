"""The tasks, one file each. ``base.py`` is their protocol; to add a task, write a file and a line in ``TASKS``."""

from typing import TYPE_CHECKING

from .base import Task
from .grapheme_to_phoneme import GraphemeToPhoneme
from .language_modeling import CausalLanguageModeling, MaskedLanguageModeling
from .sentence_classification import SentenceClassification
from .summarization import Summarization
from .translation import Translation

if TYPE_CHECKING:
    from ..recipe import Recipe  # recipe.py imports the tasks

TASKS: dict[str, type[Task]] = {
    "grapheme_to_phoneme": GraphemeToPhoneme,
    "causal_language_modeling": CausalLanguageModeling,
    "masked_language_modeling": MaskedLanguageModeling,
    "sentence_classification": SentenceClassification,
    "summarization": Summarization,
    "translation": Translation,
}


def make_task(recipe: "Recipe", only: str | None = None) -> Task:
    """Make the task of a recipe and read its data; with ``only``, the name of a split, for this split only.

    Raises:
        ValueError: its data is unsound.
        FileNotFoundError: its data is not there.
    """
    return TASKS[recipe.task.name](recipe.task.data, only)
