"""``attnzoo classify``: the label of every sentence, and on request an HTML page of the attention weights."""

import warnings
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedConfig

from ..batching import by_length
from ..viewer import sentences_html
from ..viewer.pictures import require_page
from .lines import Texts
from .models import NO_CODE, folder_of
from .parsers import classify_parser

BATCH_SIZE = 64


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = classify_parser().parse_intermixed_args(arguments)
    if options.html is not None:
        require_page(options.html)
    given = Texts(options, "sentence")
    classifier = Classifier(options.model, shows_attention=options.html is not None)
    size = 1 if options.html is not None or classifier.tokenizer.pad_token is None else BATCH_SIZE
    matrices, tokens, labels = [], [], []
    for window in given.windows():
        sides: dict[int, list[str]] = {}
        for number, sentence in window:
            try:
                if sentence:
                    sides[number] = classifier.sides(sentence)
            except ValueError as error:
                given.refuse(number, error)
        found = by_length(list(sides.values()), lambda texts: sum(map(len, texts)), size, classifier)
        by_number = dict(zip(sides, found, strict=True))
        for number, sentence in window:
            if number not in by_number:
                print()  # the output has a line for every line of the input
                continue
            label, matrix, words = by_number[number]
            print(f"{label}\t{sentence}")
            if matrix is not None:
                labels.append(label)
                matrices.append(matrix)
                tokens.append(words)
    if options.html is not None and labels:
        sentences_html(matrices, tokens, options.html, titles=labels)
    elif options.html is not None:
        given.errors.append(f"{options.html} is not written: there are no sentences to show")
    given.exit_if_refused()


class Classifier:
    """A model that classifies texts or pairs of texts, on the processor.

    Args:
        name: of the model, for :func:`folder_of`
        shows_attention: whether attention weights are returned; then a batch has one row

    Raises:
        ValueError: the folder lacks weights of a classifier; or as for ``folder_of``.
    """

    def __init__(self, name: str, shows_attention: bool) -> None:
        folder = folder_of(name, "classify")
        self.name, self.shows_attention = name, shows_attention
        self.model, report = AutoModelForSequenceClassification.from_pretrained(
            folder, output_loading_info=True, **NO_CODE
        )
        if missing := ", ".join(sorted(report["missing_keys"])):
            raise ValueError(f"{name} is not a classifier: it has no weights {missing}")
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **NO_CODE)
        self.is_of_pairs = "token_type_ids" in self.tokenizer.model_input_names

    def sides(self, sentence: str) -> list[str]:
        """The one or two texts of a line; unknown words give a warning.

        Raises:
            ValueError: the model reads another number of texts, or they are longer than it can read.
        """
        texts = sentence.split("\t")
        if len(texts) != 1 + self.is_of_pairs:
            expected = "two sentences with a tab between them" if self.is_of_pairs else "one sentence, without a tab"
            raise ValueError(f"{self.name} reads {expected}, got {sentence!r}")
        config, length = self.model.config, len(self.tokenizer(*texts, verbose=False)["input_ids"])
        most = getattr(config, "max_position_embeddings", None)
        if most is not None and getattr(config, "position_embedding", "learned") == "learned":
            most = min(most, self.tokenizer.model_max_length)  # RoBERTa has fewer positions than it says
            if length > most:
                raise ValueError(f"{sentence[:40]!r}... has {length} tokens, and the model reads {most}; shorten it")
        if length == 0:
            raise ValueError(f"{sentence!r} has no token")
        for text in texts:
            self._warn_of_unknown_words(text)
        return texts

    def _warn_of_unknown_words(self, text: str) -> None:
        read = self.tokenizer.tokenize(text, verbose=False)
        known = [token for token in read if token != self.tokenizer.unk_token]
        if len(known) == len(read) > 0:
            return
        if not any(map(str.isalnum, "".join(known))):
            warnings.warn(f"{text!r} has no word that this model knows; its label is meaningless", stacklevel=2)
        elif 2 * len(known) < len(read):
            count = f"{len(read) - len(known)} of its {len(read)} words"
            warnings.warn(f"this model does not know {count}: {text!r}; the label may be wrong", stacklevel=2)

    def __call__(self, rows: list[list[str]]) -> list[tuple[str, Tensor | None, list[str]]]:
        """The label of every row of texts; and with attention the weights of its hops or tokens, and its tokens."""
        batch: Any = self.tokenizer(
            *map(list, zip(*rows, strict=True)), return_tensors="pt", padding=len(rows) > 1, verbose=False
        )
        with torch.no_grad():
            outputs = self.model(**batch, output_attentions=self.shows_attention)
        labels = [label_of(logits, self.model.config) for logits in outputs.logits]
        if not self.shows_attention:
            return [(label, None, []) for label in labels]
        return [(labels[0], outputs.attentions[-1][0, 0], self.tokenizer.convert_ids_to_tokens(batch["input_ids"][0]))]


def label_of(logits: Tensor, config: PreTrainedConfig) -> str:
    """The prediction as text, by ``problem_type``. A model with one output predicts a number, unless it is multi-label.

    Shape:
        - logits: (number of labels,)
    """
    names = [name for _, name in sorted((config.id2label or {}).items())]
    if config.problem_type == "multi_label_classification":
        return ", ".join(f"{name} {100 * p:.0f} %" for name, p in zip(names, logits.sigmoid(), strict=True))
    if config.problem_type == "regression" or len(names) == 1:
        return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, logits.tolist(), strict=True))
    probability, label = logits.softmax(dim=0).max(dim=0)
    return f"{names[int(label)]} {100 * probability:.0f} %"
