"""Reviews of films that a small classifier learns in seconds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from attnzoo.training.tasks.sentence_classification import ClassificationData, SentenceClassification

from tests.training.runs import overrides

SMALL = [
    *overrides("model", embedding_size=12, hidden_size=12, attention_hidden_size=8, num_hops=2, classifier_size=8),
    *overrides("model", dropout=0, classifier_dropout=0, penalty_coefficient=0.01, initializer_range=0.5),
    *overrides("task.data", label_names=None, min_count=1, word_vectors=None, added_words=0),
    *overrides("task.data", tune_word_vectors=True, word_dropout=0),
    *overrides("training", batch_tokens=300, learning_rate=1e-2, warmup_steps=5, max_steps=150, evaluations=2),
]


def sentences(number: int = 400) -> pd.DataFrame:
    """Different sentences of praise or blame, each decided by one word, or by its opposite with "not"."""
    random = np.random.default_rng(0)
    rows: dict[str, str] = {}
    while len(rows) < number:
        word, negated = random.choice(["good", "fine", "bad", "dull"]), bool(random.integers(2))
        filler = " ".join(random.choice(["plot", "cast", "score", "camera", "ending"], size=3))
        verb = random.choice(["is", "was"])
        sentence = f"The {filler} {verb} {'not ' if negated else ''}{word}."
        rows[sentence] = "praise" if (word in ("good", "fine")) != negated else "blame"
    return pd.DataFrame({"review": rows.keys(), "verdict": rows.values()})


COLUMNS = {"text_column": "review", "label_column": "verdict"}


def task_of(path: Path, **keys: Any) -> SentenceClassification:
    """The task of reviews, or that of these keys."""
    return SentenceClassification(ClassificationData(**{"path": str(path), **COLUMNS, **keys}))
