"""Greedy search, sampling and beam search: the sequences of ``generate()`` in less time.

    model.generate(**inputs, num_beams=5, custom_generate=attnzoo.search)

Transformers prepares the inputs, the options and the encoder's outputs as usual, and then calls :func:`search`. A step
runs only the decoder: the source is read once and not repeated for its beams, and no output object is built. Beam
search looks for the best tokens only in those blocks of the vocabulary that have the largest scores. Greedy search of
one sequence computes only the logits that may be the largest (``largest_output.py``).

Dimensions: B sources, K beams (or returned sequences) of each, R = B * K rows, C candidates of each source, T tokens so
far.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import generation
from transformers.generation import (
    EosTokenCriteria,
    GenerationConfig,
    GenerationMode,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteriaList,
)
from transformers.utils import ModelOutput

from ..copying import pointer_generator
from ..fast_products import is_plain_linear
from ..fast_weight_copies import copies_if
from ..generation_options import SearchRefusedError
from ..library_internals import forward_hooks
from ..loss import closing_bias, with_closed
from .recurrent_steps import RecurrentSearchDecoder
from .repeated_product import RepeatedProduct
from .transformer_steps import TransformerSearchDecoder

BLOCK = 64  # words of the vocabulary in a block
NEVER = -1e9  # added to the score of a sequence that must not be chosen, as in generate()

# For every model_type that generates.
DECODERS: dict[str, type[RecurrentSearchDecoder] | type[TransformerSearchDecoder]] = {
    "attentional_rnn": RecurrentSearchDecoder,
    "small_transformer": TransformerSearchDecoder,
}
OUTPUTS: dict[bool, tuple[Any, Any]] = {  # by ``is_encoder_decoder``: for single sequences, for beams
    True: (generation.GenerateEncoderDecoderOutput, generation.GenerateBeamEncoderDecoderOutput),
    False: (generation.GenerateDecoderOnlyOutput, generation.GenerateBeamDecoderOnlyOutput),
}
STEP_OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
# Arguments of the model without effect here. A Seq2SeqTrainer passes labels, which generate() does not use either.
IGNORED_ARGUMENTS = {"use_cache", "return_dict", "labels", *STEP_OUTPUTS}
OTHER_MEMORY = ("low_memory", "prefill_chunk_size")  # options that trade time for memory


@torch.no_grad()
def search(
    model: Any,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    tokenizer: Any = None,
    **model_kwargs: Any,
) -> Tensor | ModelOutput:
    """For ``generate(custom_generate=search)``: greedy search, sampling, or beam search with ``num_beams`` above 1.

    It returns the sequences of ``generate()``, up to rounding. With ``return_dict_in_generate=True`` it returns an
    output with the sequences and, for beams, their scores. All logits processors and stopping criteria apply. The
    ``tokenizer`` is not used: ``generate()`` has already read it, for ``stop_strings`` and ``token_healing``.

    Raises:
        SearchRefusedError: an option that only Transformers' own loops have: sampled beams, outputs of single steps
            (``output_scores``, for example), a cache of the caller's, or other arguments of the model's ``forward``; a
            decoder with hooks, adapters or quantised layers, which would be bypassed; dropout in training mode; another
            attention function; options that save memory for time; a model without an entry in ``DECODERS``.
        ValueError: masks or encoder outputs that the model's ``forward`` refuses, or a logits processor whose scores
            have another shape.
        TypeError: ``encoder_outputs`` of another model.
    """
    make_decoder = DECODERS.get(model.config.model_type)
    if make_decoder is None:
        raise SearchRefusedError(
            f"search() decodes {' and '.join(DECODERS)}, got {type(model).__name__}; leave out custom_generate"
        )
    config = generation_config
    mode = config.get_generation_mode()
    known = make_decoder.reads | IGNORED_ARGUMENTS
    refused = [name for name, value in model_kwargs.items() if name not in known and value is not None]
    if mode not in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE, GenerationMode.BEAM_SEARCH):
        refused.append(f"{mode.value} (num_beams={config.num_beams}, do_sample={config.do_sample})")
    if config.return_dict_in_generate:
        refused += [f"{name}=True" for name in STEP_OUTPUTS if getattr(config, name)]
    refused += [f"{name}={value}" for name in OTHER_MEMORY if (value := getattr(config, name))]
    called = (model, model.model, model.model.decoder)
    if any(forward_hooks(part) or "forward" in vars(part) for part in called):
        refused.append("hooks on the model or its decoder")
    if refused:
        raise SearchRefusedError(f"search() does not support {' or '.join(refused)}; leave out custom_generate")
    processors = _Processors(logits_processor, model.config.vocab_size, input_ids.device)
    repeats = max(config.num_beams, config.num_return_sequences)  # of every source, by generate()
    is_beam_search, skip = mode == GenerationMode.BEAM_SEARCH, 1
    if is_beam_search and not processors.has_others and _candidates(config) <= model.config.vocab_size:
        skip = repeats  # the beams of a source start with the same tokens, so only one of them is read
    with copies_if(config.max_length > input_ids.shape[1] + 1):  # not for a single step
        reader = make_decoder(model, model_kwargs, len(input_ids) // repeats, config.num_beams)
        closed = getattr(model.config, "closed_token", None)
        decoder, sequences = _Decoder(reader, model.lm_head, closed), input_ids[::skip]
        if is_beam_search:
            starts = sequences.unflatten(0, (-1, repeats // skip))
            result = _beam_search(decoder, starts, processors, stopping_criteria, config)
        else:
            result = {"sequences": _one_by_one(decoder, sequences, processors, stopping_criteria, config)}
    if not config.return_dict_in_generate:
        return result["sequences"]
    kinds = OUTPUTS[model.config.is_encoder_decoder]
    return kinds[is_beam_search](**result)


def _end_tokens(config: GenerationConfig) -> list[int]:
    """The ids of the end tokens; empty where there is none."""
    return [] if config.eos_token_id is None else torch.as_tensor(config.eos_token_id).flatten().tolist()


def _candidates(config: GenerationConfig) -> int:
    """C, chosen so that K candidates remain even if every beam's end tokens are among the candidates."""
    return max(2, 1 + len(_end_tokens(config))) * config.num_beams


def _one_by_one(
    decoder: "_Decoder",
    sequences: Tensor,
    processors: "_Processors",
    stops: StoppingCriteriaList,
    config: GenerationConfig,
) -> Tensor:
    """Greedy search or sampling: add the best token, or a random one, to every sequence (R, T) until all end."""
    is_open = torch.ones(len(sequences), dtype=torch.bool, device=sequences.device)
    has_end = any(hasattr(stop, "eos_token_id") for stop in stops)
    padding = next((token for token in (config.pad_token_id, *_end_tokens(config)) if token is not None), None)
    while is_open.any():
        if config.do_sample:
            logits = processors.process(sequences, decoder.logits(sequences))  # (R, vocabulary)
            tokens = torch.multinomial(logits.softmax(dim=-1), num_samples=1).squeeze(1)
        else:
            tokens = decoder.best(sequences, processors)
        if has_end:
            tokens = torch.where(is_open, tokens, padding)  # type: ignore[arg-type]  # with an end token it is not None
        sequences = torch.cat([sequences, tokens.unsqueeze(1)], dim=1)
        is_open &= ~_has_ended(sequences, stops)
    return sequences


def _beam_search(
    decoder: "_Decoder",
    running: Tensor,
    processors: "_Processors",
    stops: StoppingCriteriaList,
    config: GenerationConfig,
) -> dict[str, Tensor]:
    """Transformers' beam search, rule by rule, from the first tokens (B, 1 or K, T).

    Every source has K running beams, and K places for sequences that have ended. The score of an ended sequence is
    divided by its length to the power of ``length_penalty``.
    """
    beams, batch, prompt, penalty = config.num_beams, len(running), running.shape[2], config.length_penalty
    count, ends, device = _candidates(config), _end_tokens(config), running.device
    fill = int(config.pad_token_id or ends[0]) if ends else -1  # as Transformers, which takes an id of 0 for none
    running_scores = torch.zeros(running.shape[:2], device=device)
    running_scores[:, 1:] = NEVER  # all beams of a source start with the same tokens
    ended = running[:, :1].expand(-1, beams, -1)  # (B, K, T), as wide as the longest sequence that has ended
    ended_scores = torch.full((batch, beams), NEVER, device=device)
    ended_lengths = torch.zeros(batch, beams, dtype=torch.long, device=device)
    has_ended = torch.zeros(batch, beams, dtype=torch.bool, device=device)
    can_improve = torch.ones(batch, 1, dtype=torch.bool, device=device)
    while True:
        rows = running.flatten(0, 1)
        log_probs = decoder.logits(rows).log_softmax(dim=-1)
        log_probs = processors.process(rows, log_probs)
        candidate_scores, beam, token = _best(log_probs.unflatten(0, running.shape[:2]), running_scores, count)
        candidates = torch.cat([_take(running, beam), token.unsqueeze(2)], dim=2)  # (B, C, T + 1)
        length = candidates.shape[2] - prompt
        is_end = _has_ended(candidates.flatten(0, 1), stops).unflatten(0, beam.shape)
        # A candidate that ends takes a place if it is among the best K, and good enough.
        if is_end[:, :beams].any():
            final = candidate_scores / length**penalty
            if config.early_stopping is True:
                final = final + has_ended.all(dim=1, keepdim=True) * NEVER
            final = final + ~can_improve * NEVER
            is_new = is_end & (torch.arange(count, device=device) < beams)
            final = final + ~is_new * NEVER
            wide = nn.functional.pad(ended, (0, candidates.shape[2] - ended.shape[2]), value=fill)
            ended_scores, place = torch.cat([ended_scores, final], dim=1).topk(beams)
            ended = _take(torch.cat([wide, candidates], dim=1), place)
            ended_lengths = torch.cat([ended_lengths, torch.full_like(beam, length)], dim=1).gather(1, place)
            has_ended = torch.cat([has_ended, is_new], dim=1).gather(1, place)
        # The best of the others run on.
        running_scores, place = (candidate_scores + is_end * NEVER).topk(beams)
        first_row = torch.arange(0, len(rows), running.shape[1], device=device).unsqueeze(1)  # (B, 1)
        decoder.reader.reorder((beam.gather(1, place) + first_row).flatten())
        running = _take(candidates, place)
        longest_is_best = config.early_stopping == "never" and penalty > 0
        best_length = config.max_length - prompt if longest_is_best else length
        worst = torch.where(has_ended, ended_scores.amin(dim=1, keepdim=True), NEVER)
        can_improve &= (running_scores[:, :1] / best_length**penalty > worst).any(dim=1, keepdim=True)
        is_over = is_end.all() | ~can_improve.any()
        if config.early_stopping is True:
            is_over |= has_ended.all()
        if is_over:  # read once, since the host waits for a GPU
            break
    wanted = config.num_return_sequences
    width = prompt + int(ended_lengths[:, :wanted].max())
    sequences = ended[:, :wanted, :width].flatten(0, 1)
    return {"sequences": sequences, "sequences_scores": ended_scores[:, :wanted].flatten()}


def _has_ended(sequences: Tensor, stops: StoppingCriteriaList) -> Tensor:
    """Which sequences (R, T) end with their last token: ``stops(sequences, None)``, faster for the usual criteria."""
    ended, length = torch.zeros(len(sequences), dtype=torch.bool, device=sequences.device), sequences.shape[1]
    for stop in stops:
        if type(stop) is MaxLengthCriteria and length < min(stop.max_length, stop.max_position_embeddings or math.inf):
            continue  # past max_position_embeddings it warns
        if type(stop) is EosTokenCriteria and len(stop.eos_token_id) == 1:
            ended |= sequences[:, -1] == stop.eos_token_id.to(sequences.device)
        else:
            ended = ended | stop(sequences, None)
    return ended


def _best(log_probs: Tensor, before: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ``count`` best continuations of every source: scores, beams and tokens, each (B, C), the best first.

    All of them are in the ``count`` blocks whose largest scores are highest. Only these blocks are searched.

    Shape:
        - log_probs: (B, K, vocabulary)
        - before: (B, K), the scores of the beams before this step
    """
    vocabulary = log_probs.shape[2]
    if vocabulary < count * BLOCK:  # too few blocks to be worth it
        best = (log_probs + before.unsqueeze(2)).flatten(1).topk(count)
        return best.values, best.indices // vocabulary, best.indices % vocabulary
    if vocabulary % BLOCK:
        log_probs = nn.functional.pad(log_probs, (0, -vocabulary % BLOCK), value=-torch.inf)
    blocks = log_probs.unflatten(2, (-1, BLOCK))  # (B, K, N, BLOCK)
    number = blocks.shape[2]
    block = (blocks.amax(dim=3) + before.unsqueeze(2)).flatten(1).topk(count).indices  # (B, C)
    inside = _take(blocks.flatten(1, 2), block) + before.gather(1, block // number).unsqueeze(2)  # (B, C, BLOCK)
    values, place = inside.flatten(1).topk(count)
    block = block.gather(1, place // BLOCK)
    token = block % number * BLOCK + place % BLOCK
    return values, block // number, token.clamp(max=vocabulary - 1)  # padding has -inf, as a forbidden token


def _take(values: Tensor, index: Tensor) -> Tensor:
    """The rows ``index`` (B, C) of ``values`` (B, N, W): (B, C, W)."""
    return values.gather(1, index.unsqueeze(2).expand(-1, -1, values.shape[2]))


class _Processors:
    """The logits processors in their order. Those that forbid tokens, always or before a length, work in place here."""

    def __init__(self, processors: LogitsProcessorList, vocabulary: int, device: torch.device) -> None:
        self.device = device
        self.processors: list[Any] = []  # each one, or a minimum length and the tokens that are forbidden before it
        for processor in processors:
            step: Any = processor
            if type(processor) is generation.MinLengthLogitsProcessor:
                step = processor.min_length, processor.eos_token_id
            elif type(processor) is generation.MinNewTokensLengthLogitsProcessor:
                step = processor.prompt_length_to_skip + processor.min_new_tokens, processor.eos_token_id
            elif type(processor) is generation.SuppressTokensLogitsProcessor:
                step = math.inf, processor.suppress_tokens.long()  # an empty list is a float tensor there
            if isinstance(step, tuple):
                tokens = step[1].to(device)
                step = step[0], tokens[(tokens >= 0) & (tokens < vocabulary)]
            self.processors.append(step)
        self.has_others = any(not isinstance(step, tuple) for step in self.processors)

    def process(self, sequences: Tensor, scores: Tensor) -> Tensor:
        """Process the ``scores`` (R, vocabulary) of the tokens after ``sequences`` (R, T), possibly in place."""
        for step in self.processors:
            if not isinstance(step, tuple):
                shape, scores = scores.shape, step(sequences, scores)
                if not isinstance(scores, Tensor) or scores.shape != shape:
                    found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
                    raise ValueError(
                        f"the logits processor {type(step).__name__} must return scores of shape {tuple(shape)}, one "
                        f"for each word of the vocabulary, got {found}"
                    )
            elif sequences.shape[1] < step[0]:
                scores.index_fill_(1, step[1], -torch.inf)
        return scores

    def forbidden(self, length: int) -> Tensor:
        """The tokens that are forbidden after sequences of this length, if there are no other processors."""
        none = torch.empty(0, dtype=torch.long, device=self.device)
        return torch.cat([none, *(step[1] for step in self.processors if length < step[0])])


class _Decoder:
    """A decoder and its output projection, a :class:`RepeatedProduct` if it has no hooks or adapters.

    Args:
        reader: the decoder
        lm_head: the output projection
        closed: the token that is never predicted, or None
    """

    def __init__(
        self, reader: RecurrentSearchDecoder | TransformerSearchDecoder, lm_head: Any, closed: int | None
    ) -> None:
        self.reader = reader
        # A hook may keep the layer's output.
        self.project: Callable[[Tensor], Tensor] = lambda hidden: with_closed(lm_head(hidden).clone(), closed)
        if is_plain_linear(lm_head):
            self.project = RepeatedProduct([lm_head.weight], closing_bias(lm_head, closed))

    def logits(self, sequences: Tensor) -> Tensor:
        """The logits (R, vocabulary), float32, of the token after every sequence (R, T), whose last token is new."""
        return self._logits(self.reader.read(sequences)).to(sequences.device)

    def best(self, sequences: Tensor, processors: _Processors) -> Tensor:
        """The token (R,) with the largest score after every sequence (R, T), whose last token is new."""
        readouts = self.reader.read(sequences)
        if isinstance(self.project, RepeatedProduct) and self.reader.copied is None and not processors.has_others:
            tokens = self.project.largest(readouts, processors.forbidden(sequences.shape[1]))
            if tokens is not None:
                return tokens
        logits = self._logits(readouts).to(sequences.device)
        return processors.process(sequences, logits).argmax(dim=-1)

    def _logits(self, readouts: Tensor) -> Tensor:
        logits = self.project(readouts).float()
        if self.reader.copied is not None:
            logits = pointer_generator(logits.unsqueeze(1), self.reader.copied)[:, 0].float()
        return logits
