r"""Alignments: which source tokens a model attended to for each target token, in a generation or for a given pair.

Row t of a decoder's attention belongs to the step that reads token t - 1 and predicts token t. The papers differ in
which of the two tokens the row aligns:

- Bahdanau's query has not read token t - 1 yet. Row t aligns the **predicted** token.
- Luong's query has read token t - 1. By his footnote 14 (Luong et al., 2015), the row of a content score aligns the
  token **read**, and the row of the location score aligns the predicted token. The difference is a shift of one step,
  see :func:`paper_shift`.

Models trained here align the predicted token, with Luong's content scores too (``tests/training/test_training.py``
measures it on a language with known alignments). So :func:`align` does not shift by default.

Dimensions: N sequences, B rows in the decoder (sources times beams), T target tokens, S source length.
"""

import functools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from itertools import islice
from numbers import Integral
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from .attention_recording import attention_layers, record_attention
from .batching import by_length
from .messages import described, shown
from .model_inputs import MOST_TOKENS, naming_long_texts, require_model, require_tokenizer
from .phonemes import CLOSE, OPEN, bracketed, known_phonemes, require_phonemes

Links = set[tuple[int, int]]  # of (source word, target word), both from 0
Heads = Sequence[tuple[int, int | None]]  # of (layer, head); None is the mean of the layer's heads
BATCHES_IN_MEMORY = 16


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
        source_words, target_words: the words as they are given; letters and phonemes for a model of pronunciation.
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


def generation_alignments(generated: Any, layer: int = -1, head: int | None = None) -> Tensor:
    """The alignment of every sequence that ``generate()`` returned, from the attention it recorded.

    Pass the result of ``model.generate(..., output_attentions=True, return_dict_in_generate=True)``. In a beam search
    each returned sequence is followed back through the beams it was part of. Row t is the attention of the step that
    predicted token t + 1 of the sequence (token 0 is the start token). Rows past the end of a sequence have no meaning.

    Args:
        generated: the result
        layer: a layer of the decoder, counted from 0; negative numbers count from the end. An RNN has one
        head: a head of the layer; None takes the mean of its heads

    Shape:
        - returns: (N, T, S)

    Raises:
        ValueError: the result holds no attentions, or no such layer or head.
    """
    steps = getattr(generated, "cross_attentions", None)
    if not steps:
        raise ValueError("no attentions; call generate(..., output_attentions=True, return_dict_in_generate=True)")
    if steps[0] is None:
        raise ValueError("no attentions; a model without attention has no alignments")
    _require_layers([layer], len(steps[0]))
    of_layer = torch.stack([step[layer][:, :, -1] for step in steps], dim=2)  # (B, H, T, S)
    attention_weights = _head_of(of_layer, head)  # (B, T, S)
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
    heads: Heads | None = None,
) -> ForcedDecoding:
    """The log-probabilities and the alignments of given targets. The decoder reads ``labels`` instead of its own words.

    The model runs in evaluation mode, without dropout, and then returns to its previous mode. For a generated sequence
    pass the tokens after the start token up to the first end token, and then -100, since a beam search pads with end
    tokens. The alignments of a Transformer, ours or one of the library, are those of one ``head`` of one ``layer``,
    both counted from 0; the default is the mean of the heads of the last layer. The attention backend of the model does
    not change, see :func:`attnzoo.record_attention`. An RNN has one layer and one head.

    Args:
        model: a model for conditional generation
        input_ids: the sources
        labels: the targets
        attention_mask: of the sources; None if they have no padding
        layer: a layer of the decoder; negative numbers count from the end
        head: a head of the layer; None takes the mean of its heads
        heads: several pairs of (layer, head), whose mean is taken, instead of ``layer`` and ``head``

    Shape:
        - input_ids, attention_mask: (N, S)
        - labels: (N, T), -100 on padding

    Raises:
        ValueError: no such layer or head, or ``heads`` is empty.
        TypeError: the model is not an encoder-decoder for conditional generation.
    """
    require_encoder_decoder(model)
    heads = ((layer, head),) if heads is None else heads
    are_pairs = isinstance(heads, Sequence) and all(isinstance(one, list | tuple) and len(one) == 2 for one in heads)
    if not are_pairs or not heads:
        raise ValueError(f"heads must be one or more pairs (layer, head), such as [(0, 1), (0, 3)], got {heads!r}")
    logits, cross_attentions = _decode(model, input_ids, labels, attention_mask, [of_layer for of_layer, _ in heads])
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).flatten(0, 1)
    chosen = nn.functional.cross_entropy(logits, labels.flatten().long(), reduction="none").view_as(labels)
    chosen = chosen.neg().masked_fill(labels == -100, 0.0)
    weights = None
    if cross_attentions is not None:
        of_heads = [_head_of(cross_attentions[of_layer], of_head) for of_layer, of_head in heads]
        weights = torch.stack(of_heads).mean(dim=0)
    return ForcedDecoding(chosen, chosen.sum(dim=1), weights)


def require_encoder_decoder(model: Any) -> None:
    """Raise a TypeError unless the model has an encoder, a decoder and an output projection."""
    require_model(model)
    if not getattr(model.config, "is_encoder_decoder", False) or not callable(getattr(model, "generate", None)):
        raise TypeError(
            "model must be an encoder-decoder for conditional generation, as AutoModelForSeq2SeqLM loads it, got "
            f"{type(model).__name__}"
        )


def is_number(value: Any) -> bool:
    """Whether this is a whole number; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _decode(
    model: Any, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None, layers: list[int]
) -> tuple[Tensor, dict[int, Tensor] | None]:
    """The logits (N, T, V) and the weights (N, H, T, S) of these layers; None for a model without attention."""
    batch = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels, "return_dict": True}
    cross = attention_layers(model).get("cross")
    with evaluation_mode(model):
        if cross is None:
            outputs = model(**batch, output_attentions=True)
            of_layer = outputs.cross_attentions
        else:
            _require_layers(layers, len(cross))
            with record_attention(model, layers, kinds=("cross",)) as recorded:
                outputs = model(**batch)
            return outputs.logits, {n: recorded["cross"][n % len(cross)][0] for n in layers}
    if not of_layer:
        return outputs.logits, None
    _require_layers(layers, len(of_layer))
    return outputs.logits, {number: of_layer[number] for number in layers}


def _require_layers(layers: list[int], count: int) -> None:
    for layer in layers:
        if not is_number(layer) or layer not in range(-count, count):
            raise ValueError(f"layer must be 0 to {count - 1}, the decoder's layers, got {layer!r}")


def _head_of(of_layer: Tensor, head: int | None) -> Tensor:
    """The weights (N, T, S) of one head of a layer (N, H, T, S), or the mean of its heads."""
    if head is None:
        return of_layer.mean(dim=1)
    if not is_number(head) or head not in range(of_layer.shape[1]):
        raise ValueError(f"head must be 0 to {of_layer.shape[1] - 1}, the layer's heads, or None, got {head!r}")
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
    heads: Heads | None = None,
) -> list[AlignedPair]:
    """The word alignment of every given pair, by a forced decode.

    It takes every encoder-decoder: the RNN, the Transformer, and those of the library (Marian, BART, T5). Weights of
    tokens become weights of words: those of a source word's tokens are added, those of a target word's are averaged.
    The tokenizer splits texts into words; lists of words stay as they are. A slow tokenizer, such as Marian's, splits
    texts at white space. An unknown word counts as the tokenizer's unknown token, if it has one.

    Args:
        model: a model for conditional generation with attention
        tokenizer: the model's tokenizer
        sources: texts, or lists of words
        targets: one for every source; for a tokenizer of letters and phonemes "K AE T", or lists of phonemes
        batch_size: pairs in a forward pass
        shift: 0 aligns a token by the step that predicts it, 1 by the step that reads it (which for the last word
            predicts the end); "paper" is :func:`paper_shift`. Gold alignments of some pairs can tell which is better
        layer: the layer of the decoder, as in :func:`forced_decode`
        head: the head of the layer, as there
        heads: several heads of any layers, as there; :func:`attnzoo.aligning.choose_heads` finds the best

    Raises:
        ValueError: sources or targets are not a list, they differ in number, one is empty, cannot be tokenized word by
            word or has more tokens than the model has positions, texts and lists of words are mixed, a shift below 0,
            no such layer or head, or the model has no attention.
        TypeError: ``model``, ``tokenizer``, a source or a target is of another type.
    """
    require_encoder_decoder(model)
    for name, texts in (("sources", sources), ("targets", targets)):
        if isinstance(texts, Tensor):
            raise ValueError(f"{name} must be texts, got {described(texts)}; tokenizer.batch_decode makes texts of ids")
        if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Sized) or not isinstance(texts, Iterable):
            raise ValueError(f"{name} must be a list of texts, or a list of lists of words, got {described(texts)}")
        if len({isinstance(text, str) for text in texts}) > 1:
            raise ValueError(f"{name} must be a list of texts, or a list of lists of words, got both in one list")
    if len(sources) != len(targets):
        raise ValueError(f"every source needs one target, got {len(sources)} sources and {len(targets)} targets")
    pairs = zip(sources, targets, strict=True)
    return list(align_stream(model, tokenizer, pairs, batch_size, shift, layer, head, heads))


def align_stream(
    model: Any,
    tokenizer: Any,
    pairs: Iterable[tuple[Any, Any]],
    batch_size: int = 64,
    shift: int | Literal["paper"] = 0,
    layer: int = -1,
    head: int | None = None,
    heads: Heads | None = None,
) -> Iterator[AlignedPair]:
    """:func:`align` for any number of pairs (source, target), of which only some batches are in memory at a time.

    Results have the order of the pairs. The pairs of a few batches are sorted by length, so that there is little
    padding.
    """
    require_encoder_decoder(model)
    require_tokenizer(tokenizer)
    require_whole("batch_size", batch_size)
    if shift == "paper":
        shift = paper_shift(model.config)
    if not is_number(shift) or shift < 0:
        raise ValueError(f"shift must be 'paper', or 0 or more steps, got {shift!r}")
    aligned = functools.partial(_aligned, model, shift, (layer, head, heads))
    start, remaining = 0, iter(pairs)
    while some := list(islice(remaining, batch_size * BATCHES_IN_MEMORY)):
        sources = _tokenize(tokenizer, [source for source, _ in some], "source", start)
        targets = _tokenize(tokenizer, [target for _, target in some], "target", start)
        sides = list(zip(sources, targets, strict=True))
        yield from by_length(sides, lambda pair: len(pair[0].ids) + len(pair[1].ids), batch_size, aligned)
        start += len(some)


def _aligned(
    model: Any, shift: int, attention: tuple[Any, ...], pairs: "list[tuple[_Side, _Side]]"
) -> Iterator[AlignedPair]:
    """The alignments of one batch; ``attention``: layer, head and heads, as for :func:`forced_decode`."""
    sources, targets = zip(*pairs, strict=True)
    ids = _padded([source.ids for source in sources], model.config.pad_token_id or 0, model.device)
    mask = _padded([[1] * len(source.ids) for source in sources], 0, model.device)
    labels = _padded([target.ids for target in targets], -100, model.device)
    sides = (("source", sources), ("target", targets))
    lengths = [(f"{name} {shown(' '.join(side.words))}", len(side.ids)) for name, of_name in sides for side in of_name]
    with naming_long_texts(model.config, lengths):
        decoded = forced_decode(model, ids, labels, mask, *attention)
    if decoded.alignments is None:
        raise ValueError(f"{type(model).__name__} has no attention and so no alignments")
    for row, score in enumerate(decoded.scores.tolist()):
        length = len(targets[row].ids)
        weights = decoded.alignments[row, shift:length].cpu()
        weights = nn.functional.pad(weights, (0, 0, 0, length - len(weights)), value=math.nan)
        by_word = torch.stack([weights[:, places].sum(dim=1) for places in sources[row].places], dim=1)
        by_word = torch.stack([by_word[places].nanmean(dim=0) for places in targets[row].places])
        yield AlignedPair(sources[row].words, targets[row].words, by_word, links_of(by_word), score)


def require_whole(name: str, number: Any) -> None:
    """Raise a ValueError unless this is a whole number of at least 1."""
    if type(number) is not int or number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")


def _padded(rows: list[list[int]], padding: int, device: torch.device) -> Tensor:
    """The rows as one tensor, filled up on the right."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding).to(device)


def links_of(weights: Tensor) -> Links:
    """For every target word, the link to the source word of the highest weight; none where all weights are 0 or NaN.

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
            raise ValueError(f"{shown(link)} is not a link; write 3-4 for a sure one and 3p4 or 3?4 for a possible one")
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
    r"""AER over all sentences together (Och and Ney, 2003): 0 if all links are right, 1 if all are wrong.

    .. math:: 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    Symbols: :math:`A` is ``predicted`` and :math:`S` is ``sure``. :math:`P` is ``possible`` and ``sure`` together; if
    ``possible`` is None, all possible links are sure.

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


class _Side(NamedTuple):
    """The tokens of a source or a target: its ids, its words, and the places of each word's tokens."""

    ids: list[int]
    words: list[str]
    places: list[list[int]]


def _tokenize(tokenizer: Any, texts: Sequence[Any], side: str, start: int) -> list[_Side]:
    """The tokens of texts or of lists of words; ``start`` is the number of the first one, for error messages."""
    for number, text in enumerate(texts, start=start):
        if not isinstance(text, Sequence) or not all(isinstance(word, str) for word in text):
            raise TypeError(f"{side} {number} must be a text or a list of words, got {described(text)}")
        if not text or (isinstance(text, str) and not text.strip()):
            raise ValueError(f"{side} {number} is empty; there is nothing to align")
    if side == "target" and known_phonemes(tokenizer):
        for number, text in enumerate(texts, start=start):
            require_phonemes(tokenizer, text if isinstance(text, str) else " ".join(text), f"target {number}")
        texts = [bracketed(text) if isinstance(text, str) else [bracketed(word) for word in text] for text in texts]
    encode = _encode_fast if tokenizer.is_fast else _encode_slow
    argument = "text" if side == "source" else "text_target"
    try:
        encoded = encode(tokenizer, texts, argument)
    except Exception:  # tokenizers raise nothing narrower for a word without a token
        for number, text in enumerate(texts, start=start):
            try:
                encode(tokenizer, [text], argument)
            except Exception as error:
                raise ValueError(f"{_named(side, number, text)} cannot be tokenized: {error}") from error
        raise
    for number, (text, found) in enumerate(zip(texts, encoded, strict=True), start=start):
        if len(found.ids) > MOST_TOKENS:
            count = f"{len(found.ids):,} tokens, and at most {MOST_TOKENS:,} are read; split it"
            raise ValueError(f"{_named(side, number, text)} has {count}")
        if not found.places or not all(found.places) or (not isinstance(text, str) and len(found.places) != len(text)):
            raise ValueError(f"{_named(side, number, text)} has words for which the tokenizer has no token")
    return encoded


def _named(side: str, number: int, text: Sequence[str]) -> str:
    """What messages call a text or a list of words."""
    return f"{side} {number}, {shown(text if isinstance(text, str) else ' '.join(text))},"


def places_of_words(words: Iterable[int | None]) -> dict[int, list[int]]:
    """The tokens of each word, from the word of each token; None for a special token."""
    places: dict[int, list[int]] = {}
    for place, word in enumerate(words):
        if word is not None:
            places.setdefault(word, []).append(place)
    return places


def _encode_fast(tokenizer: Any, texts: Sequence[Any], argument: str) -> list[_Side]:
    encoded = tokenizer(**{argument: list(texts)}, is_split_into_words=not isinstance(texts[0], str))
    sides = []
    for row, (text, ids) in enumerate(zip(texts, encoded["input_ids"], strict=True)):
        of_word = places_of_words(encoded.word_ids(row))
        if isinstance(text, str):
            spans = [encoded.word_to_chars(row, word) for word in of_word]
            words = [text[span.start : span.end].strip() for span in spans]
        else:
            words = [text[word] for word in of_word]
        words = [word.removeprefix(OPEN).removesuffix(CLOSE) for word in words]
        sides.append(_Side(ids, words, list(of_word.values())))
    return sides


def _encode_slow(tokenizer: Any, texts: Sequence[Any], argument: str) -> list[_Side]:
    """Word by word, since a slow tokenizer does not say which word a token belongs to."""
    sides = []
    for text in texts:
        words = text.split() if isinstance(text, str) else list(text)
        bare = [tokenizer(**{argument: word}, add_special_tokens=False)["input_ids"] for word in words]
        whole = tokenizer(**{argument: words[0]})["input_ids"]
        before = next(place for place in range(len(whole) + 1) if whole[place : place + len(bare[0])] == bare[0])
        ids, places = whole[:before], []
        for of_word in bare:
            places.append(list(range(len(ids), len(ids) + len(of_word))))
            ids = ids + of_word
        sides.append(_Side(ids + whole[before + len(bare[0]) :], words, places))
    return sides
