"""The simple baseline: TF-IDF of words and pairs of words, and logistic regression, on the data of a recipe.

    pip install scikit-learn
    python -m tests.benchmarks.tfidf configs/self_attentive_sst2.yaml

It reads the data of the recipe's task, with the same splits, and prints the metrics of the test split. A pair of
sentences becomes the features (u, v, |u - v|, u * v) of its two vectors. White space separates words, counts are taken
as 1 + log, and C = 10, which is best on the validation split of SST-2.
"""

import argparse
from typing import Any

from attnzoo.training.card import describe
from attnzoo.training.recipe import load_recipe, make_task
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", help="a YAML file under configs/")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    options = parser.parse_args()
    task: Any = make_task(load_recipe(options.recipe, options.set))
    train, test = task.splits["train"], task.splits["test"]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", sublinear_tf=True)
    vectorizer.fit([text for column in task.columns for text in train[column]])
    classifier = LogisticRegression(C=10, max_iter=1000)
    classifier.fit(features(vectorizer, train, task.columns), train["labels"][:])
    predictions = classifier.predict(features(vectorizer, test, task.columns)).tolist()
    print(
        f"{task.name}, test split, TF-IDF and logistic regression: {describe(task, task.measure('test', predictions))}"
    )


def features(vectorizer: TfidfVectorizer, rows: Any, columns: list[str]) -> csr_matrix:
    """The vectors of sentences, or the features that relate those of a pair."""
    vectors = [vectorizer.transform(rows[column][:]) for column in columns]
    if len(vectors) == 1:
        return vectors[0]
    first, second = vectors
    return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()


if __name__ == "__main__":
    main()
