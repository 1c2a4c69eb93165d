"""Reviews of films that a small classifier learns in seconds."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from attnzoo.training.tasks.sentence_classification import ClassificationData, SentenceClassification

SMALL = [
    "model.embedding_size=12",
    "model.hidden_size=12",
    "model.attention_hidden_size=8",
    "model.num_hops=2",
    "model.classifier_size=8",
    "model.dropout=0",
    "model.classifier_dropout=0",
    "model.penalty_coefficient=0.01",
    "model.initializer_range=0.5",
    "task.data.label_names=null",
    "task.data.min_count=1",
    "task.data.word_vectors=null",
    "task.data.added_words=0",
    "task.data.tune_word_vectors=true",
    "task.data.word_dropout=0",
    "training.batch_tokens=300",
    "training.learning_rate=1e-2",
    "training.warmup_steps=5",
    "training.max_steps=150",
    "training.evaluations=2",
]


def sentences(number: int = 400) -> pd.DataFrame:
    """Praise and blame of a film, told by one word, of which "not" is the opposite; all different."""
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
    """The task of reviews, or of what the keys say."""
    return SentenceClassification(ClassificationData(**{"path": str(path), **COLUMNS, **keys}))
