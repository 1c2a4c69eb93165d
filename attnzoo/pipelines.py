"""Pipelines: from texts to their best targets, with scores and alignments.

    pipeline("grapheme-to-phoneme", model="owner/name")("attention")

Transformers has no pipeline for encoder-decoders of text. Importing ``attnzoo`` registers these pipelines, which work
with the RNN and the Transformer. ``attnzoo.hub`` pushes a pipeline's code with a model whose card has its ``card_tag``.

Letters in shapes: B sources, N targets of each, T target length, S source length.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, Pipeline, PreTrainedTokenizerBase

from .alignment import forced_decode
from .phonemes import token_names

# Arguments of generate() that control the search; those that change what it returns are refused.
SEARCH_ARGUMENTS = {name for name in vars(GenerationConfig()) if not name.startswith("_")} - {"transformers_version"}
SEARCH_ARGUMENTS |= {"custom_generate", "logits_processor", "prefix_allowed_tokens_fn", "streamer"}
REFUSED = {
    "num_return_sequences": "n_best is how many targets a source gets",
    "stop_strings": "a target stops at its end token or its greatest length",
    "stopping_criteria": "a target stops at its end token or its greatest length",
    "token_healing": "a target has no prompt",
    "guidance_scale": "generate() has it for models without a source",
} | dict.fromkeys(
    ("return_dict_in_generate", "output_scores", "output_logits", "output_attentions", "output_hidden_states"),
    "a pipeline gives texts with their scores and, by alignments=True, alignments; call model.generate() for the rest",
)


class SourceToTargetPipeline(Pipeline):
    """The base class of pipelines from one text to another.

    For a source it returns a list of its ``n_best`` targets, the highest score first. Each is a dictionary with

    - the text, whose key is the ``target_key`` of the pipeline
    - ``score``: log p(target | source), the end included. It has no length penalty, unlike the scores of beam search
    - with ``alignments=True`` ``source_tokens``, ``target_tokens`` and ``alignment``: for every target token the weight
      of every source token when it was predicted. For a Transformer it is the mean of the last layer's heads

    Arguments of ``generate()``, such as ``num_beams``, can be given to the pipeline and to every call. The default of
    ``num_beams`` is that of the model's generation config, and at least ``n_best``. With
    ``do_sample=True, num_beams=1`` the targets are ``n_best`` samples.

    A list, or any other sequence, of sources gives a list; a dataset or a generator gives an iterator. A character that
    the tokenizer does not know gives a warning.

    A source that cannot be read is an error. With ``errors="skip"`` it gives one dictionary whose text and ``score``
    are None and whose ``error`` is the message, and the other sources are processed.

    Raises:
        ValueError: a source is not text or is empty, unless ``errors="skip"``; ``n_best`` or ``num_beams`` is not a
            whole number above 0; there are fewer beams than targets; an argument is unknown or requests another form of
            output; the model has no alignments, or is not an encoder-decoder with a head.
    """

    _load_tokenizer: Any = True
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_feature_extractor: Any = False

    model: Any
    tokenizer: Any
    auto_class: Any = AutoModelForSeq2SeqLM
    card_tag: str
    target_key = "target_text"

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
            inputs = list(inputs)  # a tuple, or a column of a dataset
            if not inputs:
                return []
        return super().__call__(inputs, *args, **kwargs)

    def _sanitize_parameters(
        self,
        n_best: int | None = None,
        alignments: bool | None = None,
        errors: str | None = None,
        **generate_kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if not (self.model.can_generate() and self.model.config.is_encoder_decoder):
            raise ValueError(f"{self.task} needs a model for conditional generation, got {type(self.model).__name__}")
        if alignments not in (None, True, False):
            raise ValueError(f"alignments must be True or False, got {alignments!r}")
        if errors not in (None, "raise", "skip"):
            raise ValueError(f"errors must be 'raise' or 'skip', got {errors!r}")
        config = generate_kwargs.pop("generation_config", None)
        if config is not None:
            if not isinstance(config, GenerationConfig):
                raise ValueError(f"generation_config must be a GenerationConfig, got {config!r}")
            fields = {name: value for name, value in config.to_diff_dict().items() if name in SEARCH_ARGUMENTS}
            generate_kwargs = fields | generate_kwargs
        for name, number in (("n_best", n_best), ("num_beams", generate_kwargs.get("num_beams"))):
            if number is not None and (type(number) is not int or number < 1):
                raise ValueError(f"{name} must be a whole number from 1, got {number!r}")
        for name, value in generate_kwargs.items():
            if name in REFUSED and value not in (None, False):
                raise ValueError(f"{self.task} does not take {name}={value!r}: {REFUSED[name]}")
            if name not in SEARCH_ARGUMENTS:
                raise ValueError(
                    f"{self.task} does not know {name}={value!r}; it takes n_best, alignments, errors, batch_size, "
                    "num_workers and the arguments of generate() for beams, lengths and sampling"
                )
        if generate_kwargs.get("cache_implementation") == "paged":
            raise ValueError("cache_implementation='paged' is for models without a source; use batch_size")
        start = self.model.config.decoder_start_token_id
        if (other := generate_kwargs.get("decoder_start_token_id", start)) != start:
            raise ValueError(
                f"decoder_start_token_id={other} is not the model's ({start}); set it in the model's config"
            )
        given = {"n_best": n_best, "alignments": alignments}
        generate_kwargs |= {name: value for name, value in given.items() if value is not None}
        return {} if errors is None else {"errors": errors}, generate_kwargs, {}

    def preprocess(self, source: Any, errors: str = "raise") -> dict[str, Any]:  # type: ignore[override]
        try:
            encoded = self.encode(source)
        except ValueError as error:
            if errors == "raise":
                raise ValueError(f"{error} (errors='skip' skips such sources and goes on)") from error
            stand_in = torch.zeros(1, 1, dtype=torch.long)  # a batch has a row for every source
            return {"input_ids": stand_in, "attention_mask": torch.ones_like(stand_in), "error": str(error)}
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"], "error": ""}

    def encode(self, source: Any) -> Any:
        """The tokens of a source.

        Raises:
            ValueError: it cannot be read.
        """
        if not isinstance(source, str):
            raise ValueError(f"a source must be a text, got {source!r}; for a dataset pass the column of texts")
        if not source.strip():
            raise ValueError("an empty source has no target")
        encoded = self.tokenizer(source, return_tensors="pt")
        unknown = [place for place, token in enumerate(encoded["input_ids"][0]) if token == self.tokenizer.unk_token_id]
        if unknown:
            spans = [encoded.token_to_chars(place) for place in unknown]
            characters = ", ".join(repr(source[span.start : span.end]) for span in spans)
            warnings.warn(f"{source!r} has what this model does not know: {characters}", stacklevel=2)
        return encoded

    def _forward(  # type: ignore[override]
        self, inputs: Any, n_best: int = 1, alignments: bool = False, **generate_kwargs: Any
    ) -> dict[str, Any]:
        in_force = self.model.generation_config.to_diff_dict() | generate_kwargs
        beams = in_force.get("num_beams") or 1
        is_sampled = in_force.get("do_sample") and beams == 1  # each target on its own
        if beams < n_best and not is_sampled:
            if generate_kwargs.get("num_beams") is not None:
                raise ValueError(
                    f"a search with num_beams={beams} has no n_best={n_best} targets; leave num_beams out or raise it, "
                    "or draw samples with do_sample=True, num_beams=1"
                )
            beams = n_best
        counts = {"num_beams": beams, "num_return_sequences": n_best}
        options = generate_kwargs | counts | {"return_dict_in_generate": False}
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        labels = self.model.generate(input_ids=ids, attention_mask=mask, **options)[:, 1:]  # (B * N, T)
        ends = in_force.get("eos_token_id")
        if ends is not None:
            is_end = torch.isin(labels, torch.as_tensor(ends, device=labels.device))
            labels = labels.masked_fill(is_end.cumsum(dim=1) - is_end.long() > 0, -100)  # what follows the first end
        decoded = forced_decode(self.model, ids.repeat_interleave(n_best, 0), labels, mask.repeat_interleave(n_best, 0))
        by_target = {"labels": labels, "scores": decoded.scores}
        if alignments:
            if decoded.alignments is None:
                raise ValueError("this model has no attention and so no alignments")
            by_target["alignments"] = decoded.alignments
        return inputs | {name: values.unflatten(0, (-1, n_best)) for name, values in by_target.items()}  # (B, N, ...)

    def postprocess(self, outputs: dict[str, Any]) -> list[dict[str, Any]]:  # type: ignore[override]
        if outputs["error"]:
            return [{self.target_key: None, "score": None, "error": outputs["error"]}]
        is_source = outputs["attention_mask"][0].bool()
        found = []
        for number, labels in enumerate(outputs["labels"][0]):
            is_target = labels != -100
            text = self.tokenizer.decode(labels[is_target], skip_special_tokens=True)
            target: dict[str, Any] = {self.target_key: text, "score": outputs["scores"][0, number].item()}
            if "alignments" in outputs:
                target["source_tokens"] = token_names(self.tokenizer, outputs["input_ids"][0][is_source])
                target["target_tokens"] = token_names(self.tokenizer, labels[is_target])
                target["alignment"] = outputs["alignments"][0, number][is_target][:, is_source].tolist()
            found.append(target)
        return sorted(found, key=lambda target: target["score"], reverse=True)


class GraphemeToPhonemePipeline(SourceToTargetPipeline):
    """The pronunciations of words.

    Every target has its ``pronunciation``, phonemes with spaces between them; see :class:`SourceToTargetPipeline`. The
    tokenizer accepts capitals and typographic apostrophes, and reads unknown accented letters without
    the accent. Any other character that is not in the training words is an error.
    """

    card_tag = "grapheme-to-phoneme"
    target_key = "pronunciation"

    def encode(self, source: Any) -> Any:
        if isinstance(source, str):
            source = readable_word(source, self.tokenizer)
        return super().encode(source)


class TranslationPipeline(SourceToTargetPipeline):
    """The translations of sentences, each a ``translation_text``; see :class:`SourceToTargetPipeline`."""

    card_tag = "translation"
    target_key = "translation_text"


# Transformers refuses every task whose name begins with that of a removed pipeline, such as "translation".
PIPELINES: dict[str, type[SourceToTargetPipeline]] = {
    "grapheme-to-phoneme": GraphemeToPhonemePipeline,
    "machine-translation": TranslationPipeline,
}


def readable_word(word: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """A word as the tokenizer normalises it.

    Raises:
        ValueError: the word is empty, or the tokenizer has no token for some of its characters, which are named.
    """
    normalizer = tokenizer.backend_tokenizer.normalizer
    # In a tokenizer without a normalizer, capitals are phonemes.
    normalized = word.strip().lower() if normalizer is None else normalizer.normalize_str(word)
    if not normalized:
        raise ValueError(f"{word!r} is an empty word, which has no pronunciation")
    vocabulary = tokenizer.get_vocab()
    unknown = sorted({character for character in normalized if character not in vocabulary})
    if unknown:
        advice = "leave them out, or write numbers and abbreviations as words"
        if any(character.isspace() for character in unknown):
            advice = "split a phrase into its words"
        characters = " ".join(map(repr, unknown))
        raise ValueError(f"{word!r} has characters that this model does not know: {characters}; {advice}")
    return normalized
