r"""The attention of any model on one text: its tokens and weights, as a page, a picture and tensors.

Dimensions: H heads, T tokens that attend, S tokens that are attended to, R hops.
"""

import html
import re
import warnings
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..alignment import evaluation_mode
from ..attention_recording import attention_layers, record_attention
from ..messages import described, shown, shown_each
from ..model_inputs import MOST_TOKENS, naming_long_texts, require_model, require_tokenizer
from ..phonemes import bracketed, known_phonemes, require_phonemes, unknown_parts
from .page import page, refuse_large, save_page
from .pictures import Scale, plot_alignments, plot_heads, plot_sentence
from .predictions import Predictions, predictions_of
from .tokens import Tokens, tokens_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MASK = re.compile(r"\[mask\]|<mask>", re.IGNORECASE)  # of the tokenizers of BERT and RoBERTa


class AttentionMaps(NamedTuple):
    """The attention of one kind: "self" for one stack, "encoder", "decoder" or "cross", or "hops" of Lin et al. (2017).

    Attributes:
        target: the T tokens that attend, each a row of a map. In "cross" a row is named after the token that its step
            predicts, otherwise after the token that it reads.
        source: the S tokens that are attended to, each a column.
        weights: by the number of the layer, from 0, a tensor (H, T, S); for hops (1, R, S).
    """

    target: Tokens
    source: Tokens
    weights: dict[int, Tensor]

    def best_head(self) -> tuple[int, int, float]:
        """The head with the clearest attention: its layer, its number, and its clearness, from 0 to 1.

        The clearness of a head is the mean, over the source tokens, of the largest weight that another token gives it:
        1 if every source token has a token that attends to nothing else. Special tokens do not count, since many heads
        attend mostly to them. Of equal heads the first one is taken.
        """
        target, source, weights = self
        rows, columns = (
            [place for place in range(len(side.names)) if place not in side.special] for side in (target, source)
        )
        found = []
        for number, of_layer in weights.items():
            others = of_layer.nan_to_num()
            if target is source:
                others = others * (1 - torch.eye(len(target.names)))
            points = others[:, rows][:, :, columns] if rows and columns else torch.zeros(len(others), 1, 1)
            found += [(float(value), number, head) for head, value in enumerate(points.amax(dim=1).mean(dim=1))]
        value, number, head = max(found, key=lambda one: one[0])
        return number, head, value


class AttentionView:
    """What :func:`view` returns. A notebook shows it as the interactive page.

    Attributes:
        title: the text, shortened.
        model_name: the class of the model.
        maps: the :class:`AttentionMaps` of every kind, "cross" first.
        predictions: what the model predicts, as pairs of a name and a text: the label of a classifier, the next word of
            a causal model, the words for the masks of a masked model, the target of an encoder-decoder.
    """

    def __init__(
        self, title: str, model_name: str, maps: dict[str, AttentionMaps], predictions: Predictions | None = None
    ) -> None:
        self.title, self.model_name, self.maps, self.predictions = title, model_name, maps, predictions or []

    @property
    def weights(self) -> dict[str, dict[int, Tensor]]:
        """The weights by kind and by number of the layer, each (H, T, S), float32, on the CPU."""
        return {kind: maps.weights for kind, maps in self.maps.items()}

    def __repr__(self) -> str:
        kinds = (f"{kind} (layers {', '.join(map(str, maps.weights))})" for kind, maps in self.maps.items())
        return f"<AttentionView of {self.model_name}: {', '.join(kinds)}; .save('page.html') writes the page>"

    def to_html(self) -> str:
        """The interactive page: one file that loads nothing from a network. All texts appear literally."""
        return page([self])

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; missing folders are made.

        Raises:
            ValueError: the file name does not end in .html or .htm.
        """
        return save_page([self], path)

    def plot(
        self,
        path: str | Path | None = None,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        scale: Scale = "common",
    ) -> "Figure":
        """Draw a picture: all heads as a grid, or one head, or for hops the coloured sentence.

        Args:
            path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
            kind: one of ``maps``; None takes the first
            layer: the number of a layer; None draws all layers
            head: the number of a head of the layer; None draws all heads
            scale: "common" has the colours from 0 to 1, "map" from 0 to the largest weight of each map

        Raises:
            ValueError: there is no such kind, layer, head or scale, or a head without a layer.
        """
        kind = next(iter(self.maps)) if kind is None else kind
        if kind not in self.maps:
            raise ValueError(f"kind must be one of {', '.join(self.maps)}, got {kind!r}")
        target, source, weights = self.maps[kind]
        if layer is not None and layer not in weights:
            raise ValueError(f"layer must be one of {', '.join(map(str, weights))}, got {layer!r}")
        drawn = weights if layer is None else {layer: weights[layer]}
        first = next(iter(drawn.values()))
        if head is not None and len(drawn) > 1:
            raise ValueError("a head needs the number of its layer; give layer=")
        if head is not None and head not in range(len(first)):
            raise ValueError(f"head must be 0 to {len(first) - 1}, got {head!r}")
        if kind == "hops" and head is None:
            return plot_sentence(first[0], source.names, path, scale=scale)
        if head is not None or sum(map(len, drawn.values())) == 1:
            return plot_alignments([first[head or 0]], [source.names], [target.names], path, scale=scale)
        maps = [of_layer.unsqueeze(0) for of_layer in drawn.values()]
        return plot_heads(maps, source.names, target.names, path, layers=list(drawn), scale=scale)

    def _repr_html_(self) -> str:
        """The page inside a frame, for notebooks."""
        frame = html.escape(self.to_html(), quote=True)
        style = "width:100%;height:640px;border:0"
        return f'<iframe sandbox="allow-scripts" title="Attention" style="{style}" srcdoc="{frame}"></iframe>'


def view(
    model: Any, tokenizer: Any, text: Any, target: Any = None, layers: Sequence[int] | None = None
) -> AttentionView:
    """The attention of a model on a text, as an interactive page, a picture, or the weights.

    ::

        attnzoo.view(model, tokenizer, "The cat sat on the mat.").save("page.html")

    It takes encoders (BERT), decoders (GPT-2, Llama), encoder-decoders (T5, BART, Marian) of Transformers, and the
    models of attnzoo: alignments of the RNN, hops of the self-attentive classifier, heads of the Transformer. A model
    of Transformers keeps its attention backend, see :func:`attnzoo.record_attention`. A call takes one text.

    Args:
        model: the model
        tokenizer: its tokenizer
        text: a text, a list of words, or a tuple of two texts for a model that reads pairs
        target: for an encoder-decoder the target text. None lets the model generate it. It may also be a result: of
            ``generate()`` (its first sequence), or of a pipeline for this text. For a decoder it is the continuation of
            the text
        layers: numbers of layers from 0; negative numbers count from the end. None shows all layers

    Raises:
        TypeError: ``model``, ``tokenizer``, ``text`` or ``target`` is of another type.
        ValueError: the text is empty or has more tokens than the model has positions, or more weights than a page can
            show; the target is not one of this model and this text, or the model cannot read one; the model has no
            attention, or there is no such layer.
    """
    require_model(model)
    require_tokenizer(tokenizer)
    if layers is not None and (not isinstance(layers, Sequence) or isinstance(layers, str) or not layers):
        raise ValueError(f"layers must be numbers of layers, such as [0, 3], or None for all, got {layers!r}")
    inputs = {key: value.to(model.device) for key, value in _encode(tokenizer, text).items()}
    source_ids = inputs["input_ids"][0].tolist()
    if len(source_ids) > MOST_TOKENS:
        raise ValueError(f"text has {len(source_ids):,} tokens, and at most {MOST_TOKENS:,} are shown; shorten it")
    _warn_of_other_mask(model, tokenizer, text)
    title = text if isinstance(text, str) else " ".join(text)
    name, predictions = type(model).__name__, Predictions()
    lengths = [("text", len(source_ids))]
    if model.config.is_encoder_decoder:
        inputs.pop("token_type_ids", None)  # none reads them, and generate() refuses them
        labels = _target_ids(model, tokenizer, target, inputs)
        read = _decoder_inputs(model, labels)
        written = tokenizer.decode(labels, skip_special_tokens=True)
        predictions = [("Output" if target is None else "Target, as given", written)]
        inputs["decoder_input_ids"] = torch.tensor([read], device=model.device)
        lengths.append(("target", len(read)))
        of_source, of_read, predicted = (tokens_of(tokenizer, ids) for ids in (source_ids, read, labels))
        sides = {"cross": (predicted, of_source), "encoder": (of_source, of_source), "decoder": (of_read, of_read)}
    else:
        if target is not None:
            if not model.can_generate():
                raise ValueError(f"{name} reads one text and has no target; leave target out")
            source_ids = _continued(model, tokenizer, text, target, source_ids)
            lengths = [("text with its target", len(source_ids))]
            inputs = {"input_ids": torch.tensor([source_ids], device=model.device)}
        of_source = tokens_of(tokenizer, source_ids)
        sides = {"self": (of_source, of_source)}
    reading = naming_long_texts(model.config, lengths)
    if modules := attention_layers(model):
        refuse_large(_count(model, modules, layers, sides))
        with torch.no_grad(), evaluation_mode(model), record_attention(model, layers) as recorded, reading:
            outputs = model(**inputs, return_dict=True)
        found = {kind: _numbered(of_kind) for kind, of_kind in recorded.items()}
    else:
        if layers is not None and list(layers) not in ([0], [-1]):
            raise ValueError(f"layers of {name} can only be [0], its one attention layer; got {list(layers)}")
        with torch.no_grad(), evaluation_mode(model), reading:
            outputs = model(**inputs, output_attentions=True, return_dict=True)
        kind, key = ("cross", "cross_attentions") if "cross" in sides else ("hops", "attentions")
        attentions = outputs.get(key)
        if not attentions:
            raise ValueError(f"{name} has no attention to show")
        found = {kind: dict(enumerate(attentions))}
        hops = [f"hop {number}" for number in range(attentions[-1].shape[2])]
        sides["hops"] = Tokens([], hops, list(range(len(hops)))), of_source
    if not model.config.is_encoder_decoder:
        predictions = predictions_of(model, tokenizer, source_ids, getattr(outputs, "logits", None))
    maps = {}
    for kind, of_kind in sides.items():
        if weights := {number: of_layer[0].float().cpu() for number, of_layer in found.get(kind, {}).items()}:
            maps[kind] = AttentionMaps(*of_kind, weights)
    return AttentionView(title if len(title) <= 200 else title[:199] + "…", name, maps, predictions)


def _count(model: Any, modules: dict[str, list[Any]], layers: Sequence[int] | None, sides: dict[str, Any]) -> int:
    """How many weights there will be."""
    heads = getattr(model.config.get_text_config(), "num_attention_heads", 1)
    chosen = {kind: len(found) if layers is None else min(len(layers), len(found)) for kind, found in modules.items()}
    sizes = {kind: len(target.names) * len(source.names) for kind, (target, source) in sides.items()}
    return heads * sum(chosen[kind] * size for kind, size in sizes.items() if kind in chosen)


def _warn_of_other_mask(model: Any, tokenizer: Any, text: Any) -> None:
    """Warn of the mask of another model's tokenizer, which this one reads as a text of its own."""
    mask = tokenizer.mask_token if type(model).__name__.endswith("ForMaskedLM") else None
    others = {found for part in ([text] if isinstance(text, str) else text) for found in MASK.findall(part)} - {mask}
    if mask is not None and others:
        said = f"{shown_each(sorted(others))}, which this model reads as text; its mask is {mask}"
        warnings.warn(f"text has {said}", stacklevel=3)


def _numbered(of_kind: dict[int, list[Tensor]]) -> dict[int, Tensor]:
    """One tensor for every layer; the uses of one layer, as in ALBERT, become layers of their own."""
    if any(len(calls) > 1 for calls in of_kind.values()):
        return dict(enumerate(weights for calls in of_kind.values() for weights in calls))
    return {number: calls[0] for number, calls in of_kind.items() if calls}


def _encode(tokenizer: Any, text: Any, what: str = "text") -> Any:
    """The text as a batch of one row; ``what`` is what warnings call it."""
    is_pair = isinstance(text, tuple) and len(text) == 2
    strings = text if is_pair or isinstance(text, list) else [text]
    if not all(isinstance(string, str) for string in strings):
        raise TypeError(f"text must be a text, a list of words or a tuple of two texts, got {type(text).__name__}")
    has_text = [bool(string.strip()) for string in strings]
    if not any(has_text) or (is_pair and not all(has_text)):
        raise ValueError("text is empty; there is nothing to show")
    parts = text if is_pair else [text]
    encoded = _tokenized(tokenizer, what, parts, is_split_into_words=isinstance(text, list))
    if not encoded["input_ids"].numel():
        raise ValueError(f"the tokenizer has no token for {shown(' '.join(strings))}")
    return encoded


def _tokenized(tokenizer: Any, what: str, texts: Sequence[Any], argument: str = "text", **options: Any) -> Any:
    """A batch of one text, or of a pair of texts; what is unknown gives a warning, or an error without such a token."""
    given = dict(zip((argument, "text_pair"), ([text] for text in texts), strict=False))
    try:
        encoded = tokenizer(**given, **options, return_tensors="pt", verbose=False)
    except Exception as error:  # tokenizers raise nothing narrower for a character without a token
        characters = dict.fromkeys("".join(chain(*texts)))
        unknown = [character for character in characters if not _is_known(tokenizer, character)]
        raise ValueError(f"{what} has what the tokenizer cannot read: {shown_each(unknown) or error}") from error
    if parts := unknown_parts(tokenizer, encoded, 0, *texts):
        warnings.warn(f"{what} has parts that this model does not know: {shown_each(parts)}", stacklevel=4)
    return encoded


def _is_known(tokenizer: Any, character: str) -> bool:
    try:
        return bool(tokenizer(character))
    except Exception:  # as above
        return False


def _target_ids(model: Any, tokenizer: Any, target: Any, inputs: dict[str, Tensor]) -> list[int]:
    """The ids that the decoder predicts, with the end token."""
    if target is None:
        with naming_long_texts(model.config, [("text", inputs["input_ids"].shape[1])]):
            target = model.generate(**inputs, tokenizer=tokenizer)  # for stop_strings
    text_or_ids = _text_or_ids(model, target)
    if isinstance(text_or_ids, str):
        if known_phonemes(tokenizer):
            require_phonemes(tokenizer, text_or_ids, "target")
            text_or_ids = bracketed(text_or_ids)
        return _tokenized(tokenizer, "target", [text_or_ids], "text_target")["input_ids"][0].tolist()
    start = model.generation_config.decoder_start_token_id
    start = getattr(model.config, "decoder_start_token_id", None) if start is None else start
    if start is not None and text_or_ids[0] != start:
        raise ValueError(f"target begins with the token {text_or_ids[0]}, and results of generate() with {start}")
    ids = text_or_ids[1:]
    ends = model.generation_config.eos_token_id
    for place, number in enumerate(ids):
        if number in (ends if isinstance(ends, list) else [ends]):
            return ids[: place + 1]  # generate() pads the rest
    if not ids:
        raise ValueError("target has no token but the start token")
    return ids


def _continued(model: Any, tokenizer: Any, text: Any, target: Any, source_ids: list[int]) -> list[int]:
    """The ids of a text, which alone has ``source_ids``, and its continuation."""
    text_or_ids = _text_or_ids(model, target)
    if not isinstance(text_or_ids, str):
        special = {*tokenizer.all_special_ids}
        before, ids = ([number for number in ids if number not in special] for ids in (source_ids, text_or_ids))
        if ids[: len(before)] != before:
            raise ValueError("target does not begin with the text, as the result of generate() for this text does")
        return text_or_ids
    if not isinstance(text, str):
        raise TypeError("a target text needs a text, not a list of words")
    whole = text_or_ids if text_or_ids.startswith(text) else text + text_or_ids
    return _encode(tokenizer, whole, "text with its target")["input_ids"][0].tolist()


def _text_or_ids(model: Any, target: Any) -> str | list[int]:
    """A target given as a text, as the result of generate(), or as the result of a pipeline."""
    if isinstance(target, list) and len(target) == 1:
        (target,) = target  # of a pipeline
    if isinstance(target, dict) and "sequences" not in target:
        texts = [value for key, value in target.items() if key.endswith(("text", "pronunciation")) if value]
        if not texts or not isinstance(texts[0], str):
            raise ValueError(f"target is a pipeline's result without a text; it has {', '.join(target)}")
        target = texts[0]
    if isinstance(target, str):
        if not target.strip():
            raise ValueError("target is empty; leave it out to generate one")
        return target
    sequences = target if isinstance(target, Tensor) else getattr(target, "sequences", None)
    if isinstance(sequences, Tensor):
        return _ids(model, sequences)
    raise TypeError(f"target must be a text, or a result of generate() or of a pipeline, got {type(target).__name__}")


def _ids(model: Any, sequences: Tensor) -> list[int]:
    """The ids of the first sequence."""
    if sequences.is_floating_point() or sequences.is_complex() or sequences.dtype == torch.bool:
        raise TypeError(f"target must hold the ids of tokens, got {described(sequences)}")
    if sequences.ndim not in (1, 2) or not sequences.numel():
        shape = f"(tokens,) or (sequences, tokens), got {tuple(sequences.shape)}"
        raise ValueError(f"a target of ids must have the shape {shape}")
    ids: list[int] = (sequences if sequences.ndim == 1 else sequences[0]).tolist()
    size = getattr(model.config.get_text_config(decoder=True), "vocab_size", None)
    if wrong := [number for number in ids if number < 0 or (size is not None and number >= size)]:
        raise ValueError(f"target has {wrong[0]}, which is not an id of the model's {size} tokens")
    return ids


def _decoder_inputs(model: Any, labels: list[int]) -> list[int]:
    """The ids that the decoder reads while it predicts these."""
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if callable(shift):
        return shift(labels=torch.tensor([labels], device=model.device))[0].tolist()
    return [model.config.decoder_start_token_id, *labels[:-1]]
