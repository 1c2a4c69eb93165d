"""Summaries that need no training, to compare models with: ``python -m attnzoo.training.studies.summary_baselines``.

1. The first 12 words of the text.
2. The text after the first "is" or "provides" of the first sentence, without its article.
3. The summary of the training text that is nearest by tf-idf (cosine, single words and pairs of words).

Options choose the recipe, its data and the split; the scores are those of the task.
"""

import argparse
import re
from collections.abc import Iterator

from sklearn.feature_extraction.text import TfidfVectorizer

from attnzoo.commands.parsers import add_overrides, command_parser

from ..card import describe
from ..commands.exits import exit_on_user_error
from ..recipe import load_recipe, make_task
from .study import print_table

WORDS = 12
SENTENCE = re.compile(r"(?<=[.!?])\s|\n")
VERB = re.compile(r"\b(?:is|provides)\b\s*(?:(?:an?|the)\s+)?", re.IGNORECASE)
ROWS_AT_A_TIME = 200  # of the products with all training texts


def first_words(text: str) -> str:
    """The first words of a text."""
    return " ".join(text.split()[:WORDS])


def after_verb(text: str) -> str:
    """What the first sentence says the thing is or provides; without such a verb its first words."""
    sentence = SENTENCE.split(text.strip(), maxsplit=1)[0]
    parts = VERB.split(sentence, maxsplit=1)
    return first_words(parts[-1])


def nearest(texts: list[str], known: list[str], summaries: list[str]) -> Iterator[str]:
    """For every text the summary of the known text that is nearest."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    vectors = vectorizer.fit_transform(known)
    for start in range(0, len(texts), ROWS_AT_A_TIME):
        similarity = vectorizer.transform(texts[start : start + ROWS_AT_A_TIME]) @ vectors.T
        yield from (summaries[row] for row in similarity.toarray().argmax(axis=1))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser: argparse.ArgumentParser = command_parser(
        "python -m attnzoo.training.studies.summary_baselines", "Score summaries that need no training."
    )
    parser.add_argument("--recipe", default="attentional_rnn_debian", help="default: %(default)s")
    parser.add_argument("--split", default="test", help="validation or test (default: %(default)s)")
    add_overrides(parser, "where the data is")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        task = make_task(load_recipe(options.recipe, options.set))
        if options.split not in ("validation", "test"):
            raise ValueError(f"--split is {options.split!r}; choose validation or test")
        texts, train = task.splits[options.split]["source"][:], task.splits["train"]
        baselines = {
            f"first {WORDS} words": [first_words(text) for text in texts],
            'text after "is" or "provides"': [after_verb(text) for text in texts],
            "summary of the nearest training text": list(nearest(texts, train["source"][:], train["target"][:])),
        }
        rows = [(name, describe(task, task.measure(options.split, found))) for name, found in baselines.items()]
        print_table(("baseline", f"{options.split} split, {len(texts):,} texts"), *rows)


if __name__ == "__main__":
    main()
