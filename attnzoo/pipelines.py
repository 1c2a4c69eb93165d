"""Pipelines: from texts to their best targets, with scores and alignments.

    pipeline("grapheme-to-phoneme", model="owner/name")("attention")

Transformers has no pipeline for encoder-decoders of text. Importing ``attnzoo`` registers these pipelines, which work
with the RNN and the Transformer. ``attnzoo.hub`` pushes a pipeline's code with a model whose card has its ``card_tag``.

Dimensions: B sources, N targets of each, T target length, S source length.
"""

import contextlib
import itertools
import re
import reprlib
import warnings
from collections.abc import Iterator, Sequence, Sized
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM, GenerationConfig, Pipeline, PreTrainedTokenizerBase

from .alignment import forced_decode, require_whole
from .generation_options import SearchRefusedError
from .loss import IGNORED
from .messages import shown, shown_each
from .model_inputs import MOST_TOKENS
from .phonemes import DEFAULT_ACCENT, accent_and_spelling, token_names, unknown_parts

BATCH_SIZE = 64  # of a list
SKIP = "(errors='skip' skips such sources and goes on)"

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

    A list of sources gives a list, as does any other sequence, an array or a column of pandas; a dataset or a generator
    gives an iterator. All of them are processed in batches of ``batch_size``, an argument of the pipeline and of every
    call. Its default is 64, and 1 for a generator, whose next source may depend on the last result. A list is batched
    by length; the results have the order of the list. A character that the tokenizer does not know gives a warning. So
    does a source whose result is probably wrong, if the model's config has these fields: ``longest_source``
    is the most tokens of a training source, and ``usual_score`` a log p per token that most targets reach.

    Where ``attnzoo`` is installed, :func:`attnzoo.search` finds the targets, unless an option is one that only
    ``generate()`` has.

    A source that cannot be read is an error. With ``errors="skip"`` it gives one dictionary whose text and ``score``
    are None and whose ``error`` is the message, and the other sources are processed.

    Raises:
        ValueError: a source is not text or is empty, unless ``errors="skip"``; ``n_best``, ``num_beams`` or
            ``batch_size`` is not a whole number above 0; there are fewer beams than targets; an argument is unknown
            or requests another form of output; the model has no alignments, or is not an encoder-decoder with a head.
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
    is_cut = False  # whether only the first model_max_length tokens of a text are read
    search: Any = None  # a custom_generate that also returns scores, where the package is installed

    def __init__(self, *args: Any, batch_size: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, batch_size=batch_size, **kwargs)
        self.batch_size = BATCH_SIZE if batch_size is None else batch_size
        require_whole("batch_size", self.batch_size)

    def __call__(self, inputs: Any, *args: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        if hasattr(inputs, "tolist"):  # an array, or a column of pandas
            inputs = inputs.tolist()
        if isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes):
            inputs = list(inputs)  # a tuple, or a column of a dataset
            if not inputs:
                return []
        if batch_size is not None:
            require_whole("batch_size", batch_size)
        # A source without a length, such as a generator, is batched on request only: the first result would wait for
        # a whole batch.
        if batch_size is None and isinstance(inputs, Sized):
            batch_size = self.batch_size
        if not isinstance(inputs, list):
            return super().__call__(inputs, *args, batch_size=batch_size, **kwargs)
        # By length, so that short sources are neither padded to the longest nor decoded as long as it.
        lengths = [len(source) if isinstance(source, str) else 0 for source in inputs]
        order = sorted(range(len(inputs)), key=lengths.__getitem__, reverse=True)
        try:
            found = super().__call__([inputs[place] for place in order], *args, batch_size=batch_size, **kwargs)
        except ValueError as error:
            for source in inputs if str(error).endswith(SKIP) else ():  # name the first one, not the longest
                self.preprocess([source])
            raise
        by_place = dict(zip(order, found, strict=True))
        return [by_place[place] for place in range(len(inputs))]

    def _sanitize_parameters(
        self,
        n_best: int | None = None,
        alignments: bool | None = None,
        errors: str | None = None,
        generation_config: GenerationConfig | None = None,
        **generate_kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if not (self.model.can_generate() and self.model.config.is_encoder_decoder):
            raise ValueError(f"{self.task} needs a model for conditional generation, got {type(self.model).__name__}")
        if alignments not in (None, True, False):
            raise ValueError(f"alignments must be True or False, got {alignments!r}")
        if errors not in (None, "raise", "skip"):
            raise ValueError(f"errors must be 'raise' or 'skip', got {errors!r}")
        if not isinstance(generation_config, GenerationConfig | None):
            raise ValueError(f"generation_config must be a GenerationConfig, got {generation_config!r}")
        if stops := getattr(self.model.generation_config, "stop_strings", None):
            reason = (
                f"which {self.task} does not take: {REFUSED['stop_strings']}; remove it from generation_config.json"
            )
            raise ValueError(f"the model's generation config has stop_strings={stops!r}, {reason}")
        fields = {} if generation_config is None else generation_config.to_diff_dict()
        generate_kwargs = {name: fields[name] for name in fields if name in SEARCH_ARGUMENTS} | generate_kwargs
        for name, number in (("n_best", n_best), ("num_beams", generate_kwargs.get("num_beams"))):
            if number is not None:
                require_whole(name, number)
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
        own = getattr(self.model.generation_config, "decoder_start_token_id", start)
        if own not in (start, None):
            raise ValueError(
                f"decoder_start_token_id is {own} in generation_config.json and {start} in config.json; write the same "
                "in both"
            )
        given = {"n_best": n_best, "alignments": alignments}
        generate_kwargs |= {name: value for name, value in given.items() if value is not None}
        return {} if errors is None else {"errors": errors}, generate_kwargs, {}

    def run_single(self, inputs: Any, *parameters: dict[str, Any]) -> list[dict[str, Any]]:
        return super().run_single([inputs], *parameters)[0]

    def get_iterator(
        self, inputs: Any, num_workers: int, batch_size: int, *parameters: dict[str, Any]
    ) -> Iterator[list[dict[str, Any]]]:
        """The targets of every source, computed in batches."""
        if isinstance(inputs, Sized):
            batches: Any = DataLoader(inputs, batch_size, num_workers=num_workers, collate_fn=list)  # type: ignore[arg-type]
        else:
            sources = iter(inputs)
            batches = iter(lambda: list(itertools.islice(sources, batch_size)), [])
        for batch in batches:
            yield from super().run_single(batch, *parameters)

    def preprocess(self, sources: list[Any], errors: str = "raise") -> dict[str, Any]:  # type: ignore[override]
        """The tokens of a batch of sources, and the messages of those that cannot be read."""
        texts, messages = [], []
        for source in sources:
            try:
                texts.append(self._fitting(self.read(source)))
                messages.append("")
            except ValueError as error:
                if errors == "raise":
                    raise ValueError(f"{error} {SKIP}") from error
                messages.append(str(error))
        if not texts:
            return {"errors": messages}
        # verbose: Transformers' own warning of long texts speaks of errors that these models do not have.
        options = {"padding": len(texts) > 1, "truncation": self.is_cut, "verbose": False}
        encoded = self.tokenizer(texts, **options)
        rows, masks = encoded["input_ids"], encoded["attention_mask"]
        most = self.tokenizer.model_max_length
        for number, text in enumerate(texts if self.is_cut or len(rows[0]) > most else ()):
            if encoded.is_fast and encoded[number].overflowing:
                limit = f"{most} tokens, the tokenizer's model_max_length: only these are read"
                warnings.warn(f"{shown(text)} is longer than {limit}", stacklevel=2)
            elif (length := sum(masks[number])) > most:
                limit = f"more than the {most} of the tokenizer's model_max_length; split it if the result is poor"
                warnings.warn(f"{shown(text)} has {length} tokens, {limit}", stacklevel=2)
        for row, text in enumerate(texts):
            if unknown := shown_each(unknown_parts(self.tokenizer, encoded, row, text)):
                warnings.warn(f"{shown(text)} has parts that this model does not know: {unknown}", stacklevel=2)
        longest = getattr(self.model.config, "longest_source", None)
        for text, mask in zip(texts, masks, strict=True):
            if longest is not None and (length := sum(mask)) > longest and not self.is_cut:
                learned = f"the model learned from sources of at most {longest}: split it into its sentences"
                warnings.warn(f"{shown(text)} has {length} tokens, and {learned}", stacklevel=2)
        inputs = {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}
        return inputs | {"errors": messages, "texts": texts}

    def read(self, source: Any) -> str:
        """The text of a source.

        Raises:
            ValueError: it cannot be read.
        """
        if not isinstance(source, str):
            raise ValueError(
                f"a source must be a text, got {reprlib.repr(source)}; for a dataset pass the column of texts"
            )
        if not source.strip():
            raise ValueError("an empty source has no target")
        size = len(source.encode())  # a ValueError for half of a surrogate pair, which UTF-8 cannot hold
        if size > MOST_TOKENS:  # few tokens are shorter than a byte
            length = len(self.tokenizer(source, truncation=self.is_cut, verbose=False)["input_ids"])
            if length > MOST_TOKENS:
                most = f"{length:,} tokens, and at most {MOST_TOKENS:,} are read; split it into its sentences"
                raise ValueError(f"{shown(source)} has {most}")
        adds_tokens = self.tokenizer.num_special_tokens_to_add() > 0  # such as an end, which every source then has
        if not adds_tokens and not self.tokenizer(source, verbose=False)["input_ids"]:
            raise ValueError(f"the tokenizer has no token for {shown(source)}")
        return source

    def _fitting(self, text: str) -> str:
        """The text, unless it has more tokens than the model has positions, which is a ValueError."""
        config = self.model.config
        if getattr(config, "position_embedding", None) == "learned":
            ids = self.tokenizer(text, truncation=self.is_cut, verbose=False)["input_ids"]
            length, most = len(ids), config.max_position_embeddings
            if length > most:
                raise ValueError(f"{shown(text)} has {length} tokens, and the model has {most} positions; split it")
        return text

    def _forward(  # type: ignore[override]
        self, inputs: Any, n_best: int = 1, alignments: bool = False, **generate_kwargs: Any
    ) -> dict[str, Any]:
        if "input_ids" not in inputs:
            return inputs
        model_config = self.model.generation_config
        names = "num_beams", "do_sample", "eos_token_id"
        beams, do_sample, ends = (generate_kwargs.get(name, getattr(model_config, name)) for name in names)
        beams = beams or 1
        if beams < n_best and not (do_sample and beams == 1):  # then each target is a sample of its own
            if generate_kwargs.get("num_beams") is not None:
                raise ValueError(
                    f"n_best={n_best} needs at least {n_best} beams, got num_beams={beams}; raise num_beams or leave "
                    "it out, or draw samples with do_sample=True, num_beams=1"
                )
            beams = n_best
        source = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        counts = {"num_beams": beams, "num_return_sequences": n_best}
        found = self.generate(**generate_kwargs | source | counts)
        labels = labels_of(found["sequences"], ends)  # (B * N, T)
        inputs = {**inputs, "is_sampled": bool(do_sample)}
        by_target = {"labels": labels, "scores": found["scores"]}
        if alignments or found["scores"] is None:
            repeated = {name: part.repeat_interleave(n_best, dim=0) for name, part in source.items()}
            decoded = forced_decode(self.model, labels=labels, **repeated)
            by_target["scores"] = decoded.scores
            if alignments:
                if decoded.alignments is None:
                    raise ValueError("this model has no attention and so no alignments")
                by_target["alignments"] = decoded.alignments
        return inputs | {name: values.unflatten(0, (-1, n_best)) for name, values in by_target.items()}  # (B, N, ...)

    def generate(self, **options: Any) -> Any:
        """The ``sequences`` (B * N, T) of ``generate()``, and their ``scores`` or None; by ``search`` if possible."""
        if self.search is not None and not {"custom_generate", "streamer"} & options.keys():
            with contextlib.suppress(SearchRefusedError):  # then generate() may have the option
                return self.model.generate(custom_generate=self.search, **options)
        options["return_dict_in_generate"] = False
        return {"sequences": self.model.generate(**options), "scores": None}

    def postprocess(self, outputs: dict[str, Any]) -> list[list[dict[str, Any]]]:  # type: ignore[override]
        """The targets of every source of a batch."""
        targets = iter(self.targets(outputs) if "labels" in outputs else [])
        return [
            [{self.target_key: None, "score": None, "error": message}] if message else next(targets)
            for message in outputs["errors"]
        ]

    def targets(self, outputs: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        """The targets of every source that was read, the best first."""
        ids = [[token for token in row if token != IGNORED] for row in outputs["labels"].flatten(0, 1).tolist()]
        rows, texts = iter(ids), iter(self.tokenizer.batch_decode(ids, skip_special_tokens=True))
        self._warn_of_low_scores(outputs)
        for number, (source, scores) in enumerate(zip(outputs["texts"], outputs["scores"].tolist(), strict=True)):
            found = [{self.target_key: next(texts), "score": score} for score in scores]
            if "alignments" in outputs:
                is_source = outputs["attention_mask"][number].bool()
                source_tokens = token_names(self.tokenizer, outputs["input_ids"][number][is_source])
                for target, weights in zip(found, outputs["alignments"][number], strict=True):
                    target_tokens = token_names(self.tokenizer, next(rows))
                    alignment = weights[: len(target_tokens), is_source].tolist()
                    target.update(source_tokens=source_tokens, target_tokens=target_tokens, alignment=alignment)
            found.sort(key=lambda target: target["score"], reverse=True)
            if not found[0][self.target_key] and not outputs["is_sampled"]:
                warnings.warn(f"the model predicts an empty target for {shown(source)}", stacklevel=2)
            yield found

    def _warn_of_low_scores(self, outputs: dict[str, Any]) -> None:
        """Warn of sources whose best target is less probable than nearly all targets of texts like the training texts.

        A sample may be improbable by chance, so samples give no warning.
        """
        usual = getattr(self.model.config, "usual_score", None)
        if usual is None or outputs["is_sampled"]:
            return
        for text, score in zip(outputs["texts"], best_scores_per_token(outputs), strict=True):
            if score < usual:
                warnings.warn(
                    f"{shown(text)} is unlike what this model learned from, and its result is probably wrong: log p is "
                    f"{score:.2f} for each token, usually above {usual:.2f}",
                    stacklevel=2,
                )


class GraphemeToPhonemePipeline(SourceToTargetPipeline):
    """The pronunciations of words.

    Every target has its ``pronunciation``, phonemes with spaces between them; see :class:`SourceToTargetPipeline`. For
    a model of several accents a word may begin with the token of one: "⟦gb⟧tomato". American is the default. For a
    model of several languages it must begin with the token of a dictionary: "⟦hun_latn⟧szia". The tokenizer accepts
    uppercase letters and typographic apostrophes, and reads unknown accented letters without the accent. Any other
    character that is not in the training words is an error.
    """

    card_tag = "grapheme-to-phoneme"
    target_key = "pronunciation"

    @cached_property
    def _dictionaries(self) -> tuple[str, ...]:
        """The tokens of the dictionaries of a model of several languages; empty for another model."""
        return tuple(token for token in self.tokenizer.get_added_vocab() if "_" in accent_and_spelling(token)[0])

    def read(self, source: Any) -> str:
        word = readable_word(source, self.tokenizer) if isinstance(source, str) else source
        if isinstance(word, str) and self._dictionaries and not word.startswith(self._dictionaries):
            example = shown(min(self._dictionaries) + word)
            raise ValueError(f"{shown(source)} must begin with the dictionary that reads it, such as {example}")
        return super().read(word)


class TranslationPipeline(SourceToTargetPipeline):
    """The translations of sentences, each a ``translation_text``; see :class:`SourceToTargetPipeline`.

    If no word of a source begins with a lowercase letter, the source is read in lowercase, with an uppercase letter at
    the beginning of each sentence, if it then has fewer than three quarters of the tokens. A warning says so. Other
    words that the model reads letter by letter, such as "NASA", stay as they are, with a warning.
    """

    card_tag = "translation"
    target_key = "translation_text"

    def read(self, source: Any) -> str:
        text = super().read(source)
        if not any(word[0].islower() for word in re.findall(r"\w+", text)):
            small = re.sub(r"(^\W*|[.!?]\W+)(\w)", lambda start: start[1] + start[2].upper(), text.lower())
            before, after = (len(self.tokenizer.tokenize(form)) for form in (text, small))
            if 4 * after < 3 * before:
                warnings.warn(f"{shown(text)} is read as {shown(small)}", stacklevel=2)
                return small
        if words := shown_each(self._spelled_words(text)):
            warnings.warn(f"{shown(text)} has words that this model reads letter by letter: {words}", stacklevel=2)
        return text

    def _spelled_words(self, text: str) -> list[str]:
        """The words of three letters and more that a tokenizer of subwords divides into letters."""
        if not self.tokenizer.is_fast or type(self.tokenizer.backend_tokenizer.model).__name__ == "WordLevel":
            return []
        offsets = self.tokenizer(text, return_offsets_mapping=True, verbose=False)["offset_mapping"]
        ends = {end for _, end in offsets}
        words = [word for word in re.finditer(r"[^\W\d_]{3,}", text) if word[0].lower() != word[0].upper()]
        return [word[0] for word in words if ends.issuperset(range(word.start() + 1, word.end() + 1))]


class SummarizationPipeline(SourceToTargetPipeline):
    """The summaries of texts, each a ``summary_text``; see :class:`SourceToTargetPipeline`.

    Of a text longer than the tokenizer's ``model_max_length``, only so many tokens are read, with a warning.
    """

    card_tag = "summarization"
    target_key = "summary_text"
    is_cut = True


# Transformers refuses every task whose name begins with that of a removed pipeline, such as "translation".
PIPELINES: dict[str, type[SourceToTargetPipeline]] = {
    "grapheme-to-phoneme": GraphemeToPhonemePipeline,
    "machine-translation": TranslationPipeline,
    "text-summarization": SummarizationPipeline,
}


def best_scores_per_token(outputs: dict[str, Any]) -> list[float]:
    """Log p(target | source) divided by the target's tokens, its end included: of the best target of every source.

    Args:
        outputs: of ``pipe.forward(pipe.preprocess(sources))``
    """
    lengths = (outputs["labels"] != IGNORED).sum(dim=-1)  # (B, N)
    scores = (outputs["scores"] / lengths.clamp(min=1)).tolist()
    return [
        max(zip(of_targets, per_token, strict=True))[1]
        for of_targets, per_token in zip(outputs["scores"].tolist(), scores, strict=True)
    ]


def labels_of(sequences: Tensor, ends: Any) -> Tensor:
    """The labels of sequences found by ``generate()``: without the start token, and -100 after the first end token.

    Shape:
        - sequences: (N, 1 + T)
        - ends: the id of the end token, several, or None
        - returns: (N, T)
    """
    labels = sequences[:, 1:]
    if ends is None:
        return labels
    is_end = torch.isin(labels, torch.as_tensor(ends, device=labels.device))
    return labels.masked_fill(is_end.cumsum(dim=1) - is_end.long() > 0, IGNORED)


def readable_word(word: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """A word as the tokenizer normalises it, after the token of its accent for a model of several: "⟦us⟧tomato".

    Raises:
        ValueError: the word is empty, or the tokenizer has no token for some of its characters, which are named.
    """
    token_to_id = tokenizer.backend_tokenizer.token_to_id
    accent, spelling = accent_and_spelling(word)
    if token_to_id(accent) is None:
        accent, spelling = DEFAULT_ACCENT if token_to_id(DEFAULT_ACCENT) is not None else "", word
    normalizer = tokenizer.backend_tokenizer.normalizer
    # In a tokenizer without a normalizer, uppercase letters are phonemes.
    normalized = spelling.strip().lower() if normalizer is None else normalizer.normalize_str(spelling)
    if not normalized:
        raise ValueError(f"{shown(word)} is an empty word, which has no pronunciation")
    unknown = sorted(character for character in set(normalized) if token_to_id(character) is None)
    if unknown:
        advice = "leave them out, or write numbers and abbreviations as words"
        if any(character.isspace() for character in unknown):
            advice = "split a phrase into its words"
        characters = shown_each(unknown)
        raise ValueError(f"{shown(word)} has characters that this model does not know: {characters}; {advice}")
    return accent + normalized
