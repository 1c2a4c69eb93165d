"""The tasks, one file each. ``base.py`` is their protocol; to add a task, write a file and a line in ``TASKS``."""

from .base import Task
from .grapheme_to_phoneme import GraphemeToPhoneme
from .language_modeling import CausalLanguageModeling, MaskedLanguageModeling
from .sentence_classification import SentenceClassification
from .summarization import Summarization
from .translation import Translation

TASKS: dict[str, type[Task]] = {
    "grapheme_to_phoneme": GraphemeToPhoneme,
    "causal_language_modeling": CausalLanguageModeling,
    "masked_language_modeling": MaskedLanguageModeling,
    "sentence_classification": SentenceClassification,
    "summarization": Summarization,
    "translation": Translation,
}
