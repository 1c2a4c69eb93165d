r"""Alignments: which source tokens a model attended to for each target token, in a generation or for a given pair.

Row t of a decoder's attention belongs to the step that reads token t - 1 and predicts token t. The papers differ in
which of the two tokens the row aligns:

- Bahdanau's query has not read token t - 1 yet. Row t aligns the **predicted** token.
- Luong's query has read token t - 1. By his footnote 14 (Luong et al., 2015), the row of a content score aligns the
  token **read**, and the row of the location score aligns the predicted token. The difference is a shift of one step,
  see :func:`paper_shift`.

Models trained here align the predicted token, with Luong's content scores too (``tests/training/test_training.py``
measures it on a language with known alignments). So :func:`align` does not shift by default.

Letters in shapes: N sequences, B rows in the decoder (sources times beams), T target tokens, S source length.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .phonemes import bracketed, known_phonemes, token_names

Links = set[tuple[int, int]]  # of (source word, target word), both from 0


class ForcedDecoding(NamedTuple):
    """A model's log-probabilities and alignments of given targets.

    Shape:
        - token_log_probabilities: (N, T), log p(y_t | y_<t, x); 0 where the label is -100
        - scores: (N,), their sums, log p(y | x)
        - alignments: (N, T, S), the decoder's attention in the step that predicts each token; None for a model without
          attention
    """

    token_log_probabilities: Tensor
    scores: Tensor
    alignments: Tensor | None


class AlignedPair(NamedTuple):
    """A source and a target with their alignment, word by word.

    Attributes:
        source_words, target_words: the tokens of every word, joined, without special tokens.
        weights: (target words, source words), the attention of each target word; NaN in a row past the last step of
            the decoder (see ``shift`` in :func:`align`).
        links: the source word of highest weight for every target word (Luong et al., 2015, section 5.4); a target word
            without weights has no link.
        score: log p(target | source), its end token included.
    """

    source_words: list[str]
    target_words: list[str]
    weights: Tensor
    links: Links
    score: float


def generation_alignments(generated: Any) -> Tensor:
    """The alignment of every sequence that ``generate()`` returned, from the attention it recorded.

    Pass the result of ``model.generate(..., output_attentions=True, return_dict_in_generate=True)``. In a beam search
    each returned sequence is followed back through the beams it was part of. Row t is the attention of the step that
    predicted token t + 1 of the sequence (token 0 is the start token). Rows past the end of a sequence have no meaning.

    Shape:
        - returns: (N, T, S)

    Raises:
        ValueError: the result holds no attentions.
    """
    steps = getattr(generated, "cross_attentions", None)
    if not steps:
        raise ValueError("no attentions; call generate(..., output_attentions=True, return_dict_in_generate=True)")
    if steps[0] is None:
        raise ValueError("no attentions; a model without attention has no alignments")
    attention_weights = torch.stack([step[0][:, 0, -1] for step in steps], dim=1)  # (B, T, S)
    beam_indices = getattr(generated, "beam_indices", None)  # (N, T), -1 past the end of a sequence
    if beam_indices is None:
        return attention_weights
    step_indices = torch.arange(beam_indices.shape[1], device=beam_indices.device)
    return attention_weights[beam_indices.clamp(min=0), step_indices]


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Evaluation mode, without dropout, in a ``with`` block; after it every module has the mode it had before."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@torch.no_grad()
def forced_decode(
    model: Any,
    input_ids: Tensor,
    labels: Tensor,
    attention_mask: Tensor | None = None,
    layer: int = -1,
    head: int | None = None,
) -> ForcedDecoding:
    """Score given targets and return their alignments: the decoder reads ``labels`` instead of its own words.

    The model runs in evaluation mode, without dropout, and then returns to its previous mode. For a generated sequence
    pass the tokens after the start token up to the first end token, and then -100, since a beam search pads with end
    tokens. The alignments of a Transformer are those of one ``head`` of one ``layer``, both counted from 0; the default
    is the mean of the heads of the last layer. An RNN has one layer and one head.

    Shape:
        - input_ids, attention_mask: (N, S)
        - labels: (N, T), -100 on padding

    Raises:
        ValueError: no such layer or head.
    """
    with evaluation_mode(model):
        outputs = model(
            input_ids=input_ids, attention_mask=attention_mask, labels=labels, output_attentions=True, return_dict=True
        )
    is_real = labels != -100
    logits = outputs.logits.to(torch.promote_types(outputs.logits.dtype, torch.float32))
    chosen = logits.log_softmax(-1).gather(-1, labels.where(is_real, 0).unsqueeze(-1)).squeeze(-1).where(is_real, 0.0)
    weights = _weights_of(outputs.cross_attentions, layer, head) if outputs.cross_attentions else None
    return ForcedDecoding(chosen, chosen.sum(dim=1), weights)


def _weights_of(cross_attentions: Sequence[Tensor], layer: int, head: int | None) -> Tensor:
    """The weights (N, T, S) of one head of a layer, or the mean of its heads."""
    if not -len(cross_attentions) <= layer < len(cross_attentions):
        raise ValueError(f"layer must be 0 to {len(cross_attentions) - 1}, the decoder's layers, got {layer}")
    of_layer = cross_attentions[layer]
    if head is None:
        return of_layer.mean(dim=1)
    if not 0 <= head < of_layer.shape[1]:
        raise ValueError(f"head must be 0 to {of_layer.shape[1] - 1}, the layer's heads, or None, got {head}")
    return of_layer[:, head]


def paper_shift(config: Any) -> int:
    """The shift with which the wiring's paper reads alignments: 1 for Luong's content scores, else 0."""
    return int(getattr(config, "wiring", None) == "luong" and config.score != "location")


def align(
    model: Any,
    tokenizer: Any,
    sources: Sequence[str] | Sequence[Sequence[str]],
    targets: Sequence[str] | Sequence[Sequence[str]],
    batch_size: int = 64,
    shift: int | Literal["paper"] = 0,
    layer: int = -1,
    head: int | None = None,
) -> list[AlignedPair]:
    """The word alignment of every given pair, by a forced decode.

    Weights of tokens become weights of words: those of a source word's tokens are added, those of a target word's are
    averaged. The tokenizer splits texts into words; lists of words stay as they are. An unknown word is scored as the
    tokenizer's unknown token, if it has one.

    Args:
        model: a model for conditional generation with attention
        tokenizer: the model's fast tokenizer
        sources: texts, or lists of words
        targets: one for every source; for a tokenizer of letters and phonemes "K AE T", or lists of phonemes
        batch_size: pairs in a forward pass
        shift: 0 aligns a token by the step that predicts it, 1 by the step that reads it (which for the last word
            predicts the end); "paper" is :func:`paper_shift`. Gold alignments of some pairs can tell which is better
        layer: the layer of the decoder, as in :func:`forced_decode`
        head: the head of the layer, as there. Gold alignments can also tell the best layer and head of a Transformer

    Raises:
        ValueError: sources and targets differ in number, one is empty or cannot be tokenized word by word, texts and
            lists of words are mixed, a shift below 0, no such layer or head, or the model has no attention.
    """
    if len(sources) != len(targets):
        raise ValueError(f"every source needs one target, got {len(sources)} sources and {len(targets)} targets")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    for name, texts in (("sources", sources), ("targets", targets)):
        if isinstance(texts, str) or len({isinstance(text, str) for text in texts}) > 1:
            raise ValueError(f"{name} must be a list of texts, or a list of lists of words")
    if shift == "paper":
        shift = paper_shift(model.config)
    if shift < 0:
        raise ValueError(f"shift must be 0 or more steps, got {shift}")
    pairs = []
    for start in range(0, len(sources), batch_size):
        source = _tokenize(tokenizer, sources[start : start + batch_size], "source", start)
        target = _tokenize(tokenizer, targets[start : start + batch_size], "target", start)
        labels = target["input_ids"].masked_fill(target["attention_mask"] == 0, -100)
        ids, labels, mask = (x.to(model.device) for x in (source["input_ids"], labels, source["attention_mask"]))
        decoded = forced_decode(model, ids, labels, mask, layer, head)
        if decoded.alignments is None:
            raise ValueError(f"wiring={model.config.wiring!r} has no attention and so no alignments")
        alignments = decoded.alignments.cpu()
        for row, score in enumerate(decoded.scores.tolist()):
            weights = torch.full_like(alignments[row], math.nan)
            num_tokens = int(target["attention_mask"][row].sum())
            weights[: max(0, num_tokens - shift)] = alignments[row, shift:num_tokens]
            source_words, source_tokens = _words(tokenizer, source, row)
            target_words, target_tokens = _words(tokenizer, target, row)
            by_word = torch.stack([weights[:, tokens].sum(dim=1) for tokens in source_tokens], dim=1)
            by_word = torch.stack([by_word[tokens].nanmean(dim=0) for tokens in target_tokens])
            pairs.append(AlignedPair(source_words, target_words, by_word, links_of(by_word), score))
    return pairs


def links_of(weights: Tensor) -> Links:
    """The source word of the highest weight for every target word; none where all weights are 0 or NaN.

    Shape:
        - weights: (target words, source words)
    """
    if not weights.numel():
        return set()
    best, source = weights.nan_to_num(0.0).max(dim=1)
    return {(s, t) for t, (s, weight) in enumerate(zip(source.tolist(), best.tolist(), strict=True)) if weight > 0}


def to_pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Links as a line in Pharaoh format: "0-0 1-2", source word before target word, both from 0."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def from_pharaoh(line: str) -> tuple[Links, Links]:
    """The sure and the possible links of a line in Pharaoh format; every sure link is possible.

    "3-4" is sure; "3p4" and "3?4" are possible only, as in the published gold alignments.

    Raises:
        ValueError: a link that is none of these.
    """
    sure, possible = set(), set()
    for link in line.split():
        parts = re.fullmatch(r"(\d+)([-p?])(\d+)", link)
        if parts is None:
            raise ValueError(f"{link!r} is not a link; write 3-4 for a sure one and 3p4 or 3?4 for a possible one")
        words = int(parts[1]), int(parts[3])
        possible.add(words)
        if parts[2] == "-":
            sure.add(words)
    return sure, possible


def alignment_error_rate(
    predicted: Sequence[Collection[tuple[int, int]]],
    sure: Sequence[Collection[tuple[int, int]]],
    possible: Sequence[Collection[tuple[int, int]]] | None = None,
) -> float:
    r"""AER over all sentences together (Och and Ney, 2003): 0 is perfect, 1 is all wrong.

    .. math:: 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    Symbols: :math:`A` is ``predicted``, :math:`S` is ``sure``, :math:`P` is ``possible`` with the sure ones, which
    count as possible even if they are not repeated there. None means that there are no other possible links.

    Raises:
        ValueError: different numbers of sentences, or no predicted and no sure link in any of them.
    """
    if possible is None:
        possible = sure
    if not len(predicted) == len(sure) == len(possible):
        counts = f"{len(predicted)} predicted, {len(sure)} sure and {len(possible)} possible"
        raise ValueError(f"every sentence needs its gold links, got {counts}")
    right = total = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        right += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    if not total:
        raise ValueError("there is not a single link, predicted or sure; the error rate is not defined")
    return 1 - right / total


def _tokenize(tokenizer: Any, texts: Sequence[Any], side: str, start: int) -> Any:
    """The tokens of texts or of lists of words; ``start`` is the number of the first one, for error messages."""
    for number, text in enumerate(texts, start=start):
        if not text or (isinstance(text, str) and not text.strip()):
            raise ValueError(f"{side} {number} is empty; there is nothing to align")

    if side == "target" and known_phonemes(tokenizer):
        texts = [bracketed(text) if isinstance(text, str) else [bracketed(word) for word in text] for text in texts]

    def encode(some: Sequence[Any]) -> Any:
        return tokenizer(
            **{"text" if side == "source" else "text_target": list(some)},
            is_split_into_words=not isinstance(some[0], str),
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )

    try:
        encoded = encode(texts)
    except Exception:  # tokenizers raise nothing narrower for a word without a token
        for number, text in enumerate(texts, start=start):
            try:
                encode([text])
            except Exception as error:
                raise ValueError(f"{side} {number}, {text!r}, cannot be tokenized: {error}") from error
        raise
    for row, text in enumerate(texts):
        words = set(encoded.word_ids(row)) - {None}
        if not words or (not isinstance(text, str) and len(words) != len(text)):
            raise ValueError(f"{side} {start + row}, {text!r}, has words for which the tokenizer has no token")
    return encoded


def _words(tokenizer: Any, encoded: Any, row: int) -> tuple[list[str], list[list[int]]]:
    """The words of one row, and the places of each word's tokens."""
    tokens: dict[int, list[int]] = {}
    for place, word in enumerate(encoded.word_ids(row)):
        if word is not None:  # a special token, or padding
            tokens.setdefault(word, []).append(place)
    names = token_names(tokenizer, encoded["input_ids"][row])
    return ["".join(names[place] for place in places) for places in tokens.values()], list(tokens.values())
