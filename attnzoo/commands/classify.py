"""``attnzoo classify``: the label of every sentence, and on request the page of ``attnzoo view``."""

import sys
import warnings
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ..batching import by_length
from ..loading import load_trained
from ..messages import shown, shown_each
from ..model_inputs import MOST_TOKENS
from ..phonemes import unknown_parts
from ..viewer.attention_view import view
from ..viewer.page import save_page
from ..viewer.pictures import require_page
from ..viewer.predictions import label_of
from .lines import Texts
from .models import NO_CODE, folder_of
from .outputs import refuse_overwriting
from .parsers import classify_parser

BATCH_SIZE = 64


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = classify_parser().parse_intermixed_args(arguments)
    if options.html is not None:
        require_page(options.html)
    given = Texts(options, "sentence")
    if options.html is not None:
        refuse_overwriting("--html", options.html, given.source)
    classifier = Classifier(options.model)
    size = 1 if classifier.tokenizer.pad_token is None else BATCH_SIZE
    views = []
    for window in given.windows():
        sides: dict[int, list[str]] = {}
        for number, sentence in window:
            try:
                if sentence:
                    sides[number] = classifier.sides(sentence)
            except ValueError as error:
                given.refuse(number, error)
        labels = by_length(list(sides.values()), lambda texts: sum(map(len, texts)), size, classifier)
        by_number = dict(zip(sides, labels, strict=True))
        for number, sentence in window:
            if number not in by_number:
                print()  # the output has a line for every line of the input
                continue
            label = " ".join(by_number[number].split())  # a name may have a tab, which separates it from the sentence
            print(f"{label}\t{sentence}")
            if options.html is not None:
                text = tuple(sides[number]) if len(sides[number]) == 2 else sentence
                try:
                    views.append(view(classifier.model, classifier.tokenizer, text))
                except ValueError as error:  # such as too many weights; the other lines still have labels
                    given.refuse(number, error)
    if views:
        save_page(views, options.html)
        print(f"{options.html} is written", file=sys.stderr)
    elif options.html is not None:
        given.errors.append(f"{options.html} is not written: there are no sentences to show")
    given.exit_if_refused()


class Classifier:
    """A model that classifies texts or pairs of texts, on the processor.

    Args:
        name: of the model, for :func:`folder_of`

    Raises:
        OSError, ValueError: as for :func:`folder_of` and :func:`load_trained`.
    """

    def __init__(self, name: str) -> None:
        folder = folder_of(name, "classify")
        self.name = name
        self.model = load_trained(AutoModelForSequenceClassification, folder)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, **NO_CODE)
        # Only the config of a self-attentive classifier says how many texts it reads.
        is_of_pairs = getattr(self.model.config, "sentence_pair", None)
        self.text_counts = {1, 2} if is_of_pairs is None else {2 if is_of_pairs else 1}

    def sides(self, sentence: str) -> list[str]:
        """The one or two texts of a line; unknown words give a warning.

        Raises:
            ValueError: the model reads another number of texts, or they are longer than it can read.
        """
        texts = sentence.split("\t")
        if len(texts) not in self.text_counts:
            forms = {1: "one sentence, without a tab", 2: "two sentences with a tab between them"}
            expected = ", or ".join(forms[count] for count in sorted(self.text_counts))
            raise ValueError(f"{self.name} reads {expected}, got {shown(sentence)}")
        config, length = self.model.config, len(self.tokenizer(*texts, verbose=False)["input_ids"])
        most, positions = MOST_TOKENS, getattr(config, "max_position_embeddings", None)
        if positions is not None and getattr(config, "position_embedding", "learned") == "learned":
            most = min(most, positions, self.tokenizer.model_max_length)  # RoBERTa has fewer positions than it says
        if length > most:
            raise ValueError(f"{shown(sentence)} has {length:,} tokens, and at most {most:,} are read; shorten it")
        if length == 0:
            raise ValueError(f"{shown(sentence)} has no token")
        for text in texts:
            self._warn_of_unknown_words(text)
        return texts

    def _warn_of_unknown_words(self, text: str) -> None:
        read = self.tokenizer.tokenize(text, verbose=False)
        special = {*self.tokenizer.all_special_tokens}  # the token of unknown words, and those that are not words
        known = [token for token in read if token not in special]
        if len(known) == len(read) > 0:
            return
        if not any(map(str.isalnum, "".join(known))):
            warnings.warn(f"{shown(text)} has no word that this model knows; its label is meaningless", stacklevel=2)
        elif 2 * len(known) < len(read):
            count = f"{len(read) - len(known)} words of {len(read)}"
            unknown = shown_each(unknown_parts(self.tokenizer, self.tokenizer([text], verbose=False), 0, text))
            said = f"{shown(text)} has {count} that this model does not know, {unknown}; the label may be wrong"
            warnings.warn(said, stacklevel=2)

    def __call__(self, rows: list[list[str]]) -> list[str]:
        """The label of every row of texts."""
        encoded = [self.tokenizer(*texts, verbose=False) for texts in rows]  # some of them may be pairs
        batch: Any = self.tokenizer.pad(encoded, return_tensors="pt", padding=len(rows) > 1, verbose=False)
        with torch.no_grad():
            return [label_of(logits, self.model.config) for logits in self.model(**batch, return_dict=True).logits]
