"""Run a model that attnzoo exported to ONNX. It needs numpy, tokenizers and onnxruntime; neither torch nor attnzoo.

    python run.py attention --n-best 3

    from run import OnnxModel
    model = OnnxModel("folder")                 # by default the folder of this file
    model(["attention", "castle"], n_best=3)    # for each text its outputs, the best first

Letters in shapes: B texts, K beams of each, R = B * K rows, C candidates, S source length, T tokens, V vocabulary size.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

NEVER = np.float32(-1e9)  # added to the score of a sequence that must not be chosen
DETAILS = "export.json"  # what was exported, and how


class Output(NamedTuple):
    """What a model generates from a text; the tokens are without special ones."""

    text: str
    score: float  # log p(text | source), its end included
    tokens: tuple[str, ...]
    alignment: np.ndarray | None = None  # (T, S), for each token its weight of every source token, on request


class Classified(NamedTuple):
    """The label of a text, and what the model says of all labels."""

    label: str
    values: dict[str, float]  # probabilities, or numbers of a regression
    tokens: tuple[str, ...]
    attention: np.ndarray | None = None  # (hops, S), of a structured self-attentive model


class Generated(NamedTuple):
    """What is generated from arrays; N outputs of each source, the best first.

    Shape:
        - tokens: (B * N, T), padded after the end
        - scores: (B * N,), log p of the tokens, the end included
        - attention: (B * N, T, S), in the step that predicts each token; None without attention
    """

    tokens: np.ndarray
    scores: np.ndarray
    attention: np.ndarray | None


class OnnxModel:
    """An exported model: a call returns the outputs of texts; :meth:`generate` and :meth:`outputs` take arrays.

    Options of a call, for a model that generates:

    - ``n_best``: how many outputs of each text
    - ``num_beams``: 1 is greedy search; the default is the model's, and at least ``n_best``
    - ``max_new_tokens``: the most tokens of an output, one number or one for each text; the default is the model's
    - ``do_sample``, ``temperature``, ``top_k``, ``top_p``, ``seed``: samples instead of the best
    - ``alignments=True``: with the alignments

    Args:
        folder: that ``attnzoo export`` wrote
        threads: of ONNX Runtime; None is one for every core
        batch_size: texts that are computed at once

    Raises:
        FileNotFoundError: no such folder, or no exported model in it.
    """

    def __init__(self, folder: str | Path | None = None, threads: int | None = None, batch_size: int = 64) -> None:
        self.folder = Path(__file__).parent if folder is None else Path(folder)
        if not (self.folder / DETAILS).is_file():
            raise FileNotFoundError(f"{self.folder} is no exported model: it has no {DETAILS}; see attnzoo export")
        self.details: dict[str, Any] = self._json(DETAILS)
        self.config: dict[str, Any] = self._json("config.json")
        self.task: str = self.details["task"]
        self.generates = self.task in ("text-to-text", "continuation")
        self.generation: dict[str, Any] = self._json("generation_config.json")
        self.threads, self.batch_size = threads, batch_size
        self._sessions: dict[str, tuple[onnxruntime.InferenceSession, list[str], list[str]]] = {}
        ends = self.generation.get("eos_token_id")
        self.ends: list[int] = [] if ends is None else ends if isinstance(ends, list) else [ends]
        self.padding = int(self.config.get("pad_token_id") or 0)

    def __call__(self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None, **options: Any) -> Any:
        """Run the model on texts.

        Args:
            texts: a text, or a list of texts
            pairs: for a model of sentence pairs, the second sentence of each text
            options: see :class:`OnnxModel`

        Returns:
            a list with one result for each text, or the result itself if ``texts`` is a string. A result is a list of
            :class:`Output`, the best first, if the model generates. It is a :class:`Classified` for a classifier of
            texts, a tuple of them for a classifier of tokens, and a list of words for a masked language model

        Raises:
            ValueError: a text is empty or has characters that the tokenizer does not know; an option is out of range.
            TypeError: a text is not a string, or this model does not have an option.
        """
        if isinstance(texts, str):
            return self([texts], None if pairs is None else [str(pairs)], **options)[0]
        texts, run = list(texts), self._generate_texts if self.generates else self._classify_texts
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"every text needs its pair, got {len(texts)} texts and {len(pairs)} pairs")
        sources = [self._encode(text, None if pairs is None else pairs[n]) for n, text in enumerate(texts)]
        limits = options.pop("max_new_tokens", None)
        found: list[Any] = [None] * len(texts)
        by_length = sorted(range(len(texts)), key=lambda n: len(sources[n].ids))
        for first in range(0, len(texts), self.batch_size):
            chosen = by_length[first : first + self.batch_size]
            if limits is not None:
                options["max_new_tokens"] = np.broadcast_to(limits, len(texts))[chosen]
            for number, output in zip(chosen, run([sources[n] for n in chosen], **options), strict=True):
                found[number] = output
        return found

    def outputs(self, graph: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs of ``graph``.onnx by name. Inputs that it does not have are left out."""
        session, reads, names = self.session(graph)
        return dict(zip(names, session.run(None, {name: inputs[name] for name in reads}), strict=True))

    def generate(
        self,
        input_ids: np.ndarray,
        attention_mask: np.ndarray | None = None,
        n_best: int = 1,
        num_beams: int | None = None,
        max_new_tokens: int | np.ndarray | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Generated:
        """The sequences of ``generate()``, without the start token or the prompt; padding may stand anywhere.

        Raises:
            ValueError: arrays that are not (B, S) or have other ids than the model, or an option out of range.
        """
        ids, mask = self._checked(input_ids, attention_mask)
        do_sample = bool(self.generation.get("do_sample")) if do_sample is None else do_sample
        beams = 1 if do_sample else num_beams or max(n_best, self.generation.get("num_beams") or 1)
        if type(n_best) is not int or n_best < 1 or (beams < n_best and not do_sample):
            raise ValueError(f"n_best must be a whole number from 1 to num_beams={beams}, got {n_best!r}")
        if do_sample and num_beams not in (None, 1):
            raise ValueError(f"do_sample=True draws single sequences, got num_beams={num_beams}; leave it out")
        limits = self._limits(ids, max_new_tokens)
        if do_sample:
            options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
            return self._sample(_Steps(self, ids, mask, n_best), np.repeat(limits, n_best), seed, options)
        if beams > 1:
            return self._beam_search(_Steps(self, ids, mask, beams), beams, n_best, limits)
        found = self.outputs("greedy", input_ids=ids, attention_mask=mask, max_new_tokens=np.array(limits.max()))
        is_inside = np.arange(found["tokens"].shape[1]) < limits[:, None]
        tokens = np.where(is_inside, found["tokens"], self.padding)
        return Generated(tokens, np.where(is_inside, found["scores"], 0).sum(axis=1), found.get("attention"))

    def forced_decode(
        self, input_ids: np.ndarray, attention_mask: np.ndarray | None, tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The logits of every token of given outputs, and the attention: the model reads these instead of its own.

        Shape:
            - input_ids, attention_mask: (B, S); tokens: (B * N, T), without the start token
            - returns: logits (B * N, T, V), attention (B * N, T, S) or None
        """
        ids, mask = self._checked(input_ids, attention_mask)
        if not len(tokens) or len(tokens) % len(ids):
            raise ValueError(f"every source needs equally many outputs, got {len(ids)} and {len(tokens)}")
        steps, rows, logits = _Steps(self, ids, mask, len(tokens) // len(ids)), np.arange(len(tokens)), []
        for column in np.asarray(tokens, dtype=np.int64).T:
            logits.append(steps.read())
            steps.go_on(rows, column)
        return np.stack(logits, axis=1), steps.attention()

    def _limits(self, ids: np.ndarray, given: int | np.ndarray | None) -> np.ndarray:
        """The most new tokens of every text, (B,), by the rules of ``generate()``."""
        prompt = ids.shape[1] if self.task == "continuation" else 1
        given = self.generation.get("max_new_tokens") if given is None else given
        positions = self.config.get("max_position_embeddings")
        if given is None and self.generation.get("max_length") is not None:
            given = self.generation["max_length"] - prompt
        given = min(20, 20 if positions is None else positions - prompt) if given is None else given
        limits = np.array(np.broadcast_to(given, len(ids)), dtype=np.int64)
        if (limits < 1).any():
            raise ValueError(f"max_new_tokens must be at least 1, got {limits.min()} after {prompt} tokens")
        if self.config.get("position_embedding") == "learned" and prompt + limits.max() - 1 > positions:
            raise ValueError(f"max_new_tokens={limits.max()} after {prompt} tokens is more than {positions} positions")
        return limits

    def _sample(self, steps: "_Steps", limits: np.ndarray, seed: int | None, given: dict[str, Any]) -> Generated:
        """One sample for each row of the steps."""
        options: dict[str, Any] = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}
        for own in ({name: self.generation.get(name) for name in options}, given):
            options |= {name: value for name, value in own.items() if value is not None}
        if options["temperature"] <= 0 or options["top_k"] < 0 or not 0 <= options["top_p"] <= 1:
            raise ValueError(f"temperature must be above 0, top_k at least 0 and top_p between 0 and 1, got {options}")
        random, rows = np.random.default_rng(seed), np.arange(len(limits))
        is_open = np.ones(len(rows), dtype=bool)
        tokens, scores = np.zeros((len(rows), 0), np.int64), np.zeros(len(rows), np.float32)
        while is_open.any():
            logits = steps.read()
            totals = np.exp(_log_softmax(_warped(logits, **options))).cumsum(axis=1, dtype=np.float64)
            draws = random.random((len(rows), 1)) * totals[:, -1:]
            chosen = np.where(is_open, (totals <= draws).sum(axis=1).clip(max=logits.shape[1] - 1), self.padding)
            scores = scores + np.where(is_open, _log_softmax(logits)[rows, chosen], 0)
            tokens = np.concatenate([tokens, chosen[:, None]], axis=1)
            is_open &= ~(np.isin(chosen, self.ends) | (tokens.shape[1] >= limits))
            steps.go_on(rows, chosen)
        return Generated(tokens, scores, steps.attention())

    def _beam_search(self, steps: "_Steps", beams: int, wanted: int, limits: np.ndarray) -> Generated:
        """The beam search of Transformers, rule by rule.

        Every source has K running beams and K places for sequences that have ended. The score of an ended sequence is
        divided by its length to the power of ``length_penalty``.
        """
        batch, longest = len(limits), int(limits.max())
        penalty = 1.0 if (given := self.generation.get("length_penalty")) is None else given
        early = self.generation.get("early_stopping") or False
        count = max(2, 1 + len(self.ends)) * beams
        if count > beams * self.config["vocab_size"]:
            raise ValueError(f"num_beams={beams} needs a larger vocabulary than {self.config['vocab_size']} tokens")
        running = np.zeros((batch, beams, 0, 2), np.int64)  # tokens, and the rows of the steps that predicted them
        running_scores = np.zeros((batch, beams), np.float32)
        running_scores[:, 1:] = NEVER  # all beams of a source start with the same tokens
        fill = self.generation.get("pad_token_id") or (self.ends[0] if self.ends else self.padding)  # as there
        ended = np.broadcast_to([fill, 0], (batch, beams, longest, 2))
        ended_scores = np.full((batch, beams), NEVER)
        ended_lengths = np.zeros((batch, beams), np.int64)
        has_ended = np.zeros((batch, beams), bool)
        can_improve = np.ones((batch, 1), bool)
        first_row = np.arange(batch)[:, None] * beams
        for length in range(1, longest + 1):
            log_probs = _log_softmax(steps.read()).reshape(batch, beams, -1) + running_scores[:, :, None]
            candidate_scores, place = _best(log_probs.reshape(batch, -1), count)
            beam, token = np.divmod(place, log_probs.shape[2])
            new = np.stack([token, beam + first_row], axis=2)[:, :, None]
            candidates = np.concatenate([_take(running, beam), new], axis=2)  # (B, C, T, 2)
            is_end = np.isin(token, self.ends) | (length >= limits)[:, None]
            # A candidate that ends takes a place if it is among the best K, and good enough.
            is_new = is_end & (np.arange(count) < beams)
            final = candidate_scores / np.float32(length**penalty)
            if early is True:
                final = final + has_ended.all(axis=1, keepdims=True) * NEVER
            final = final + ~can_improve * NEVER + ~is_new * NEVER
            rest = np.broadcast_to([fill, 0], (batch, count, longest - length, 2))
            ended_scores, place = _best(np.concatenate([ended_scores, final], axis=1), beams)
            ended = _take(np.concatenate([ended, np.concatenate([candidates, rest], axis=2)], axis=1), place)
            ended_lengths = _take(np.concatenate([ended_lengths, np.full_like(beam, length)], axis=1), place)
            has_ended = _take(np.concatenate([has_ended, is_new], axis=1), place)
            # The best of the others run on.
            running_scores, place = _best(candidate_scores + is_end * NEVER, beams)
            running = _take(candidates, place)
            best_length = longest if early == "never" and penalty > 0 else length
            worst = np.where(has_ended, ended_scores.min(axis=1, keepdims=True), NEVER)
            reachable = running_scores[:, :1] / np.float32(best_length**penalty)
            can_improve &= (reachable > worst).any(axis=1, keepdims=True)
            if (early is True and has_ended.all()) or is_end.all() or not can_improve.any():
                break
            tokens, rows = running[:, :, -1].reshape(-1, 2).T
            steps.go_on(rows, tokens)
        lengths = ended_lengths[:, :wanted].ravel()
        tokens, rows = ended[:, :wanted, : lengths.max()].reshape(len(lengths), -1, 2).transpose(2, 0, 1)
        scores = ended_scores[:, :wanted].ravel() * lengths**penalty
        return Generated(tokens, scores, steps.attention(rows))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = self._json("tokenizer_config.json").get("split_special_tokens", False)
        return tokenizer

    def token_names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The tokens of these ids; phonemes are without their brackets."""
        return tuple((self.tokenizer.id_to_token(int(token)) or "").strip("⟦⟧") for token in ids)

    def _encode(self, text: Any, pair: str | None) -> Any:
        """The tokens of a text, or of a text and its pair."""
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string, got {text!r}")
        if self.task != "continuation" and not text.strip():
            raise ValueError("a text is empty")
        if (pair is not None) != bool(self.config.get("sentence_pair")):
            raise ValueError("the model reads pairs of texts" if pair is None else "the model reads texts, not pairs")
        try:
            encoded = self.tokenizer.encode(text, pair)
        except Exception as error:  # tokenizers raises nothing narrower
            normalizer = self.tokenizer.normalizer
            normalized = text if normalizer is None else normalizer.normalize_str(text)
            unknown = sorted({letter for letter in normalized if self.tokenizer.token_to_id(letter) is None})
            raise ValueError(f"{text!r} has characters that this model does not know: {unknown}") from error
        if not encoded.ids:
            raise ValueError(f"{text!r} has no tokens")
        unknown_token = self._json("tokenizer_config.json").get("unk_token")
        places = [place for place, token in enumerate(encoded.tokens) if token == unknown_token]
        if unknown := [text[slice(*encoded.offsets[place])] for place in places]:
            warnings.warn(f"{text!r} has what this model does not know: {unknown}", stacklevel=4)
        return encoded

    def arrays(self, encoded: Sequence[Any]) -> dict[str, np.ndarray]:
        """input_ids, attention_mask, token_type_ids (B, S), prompts padded on the left and other texts on the right."""
        width = max(len(one.ids) for one in encoded)
        batch = np.full((3, len(encoded), width), self.padding)
        batch[1:] = 0
        for row, one in enumerate(encoded):
            size = len(one.ids)
            places = slice(width - size, None) if self.task == "continuation" else slice(size)
            batch[:, row, places] = one.ids, [1] * size, one.type_ids
        return dict(zip(("input_ids", "attention_mask", "token_type_ids"), batch, strict=True))

    def _generate_texts(self, encoded: list[Any], alignments: bool = False, **options: Any) -> Iterator[list[Output]]:
        arrays = self.arrays(encoded)
        found = self.generate(arrays["input_ids"], arrays["attention_mask"], **options)
        n_best = len(found.tokens) // len(encoded)
        added = self.tokenizer.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        for row, source in enumerate(encoded):
            outputs = []
            for at in range(row * n_best, (row + 1) * n_best):
                ids = [int(token) for token in found.tokens[at]]
                end = next((n + 1 for n, token in enumerate(ids) if token in self.ends), len(ids))
                places = [n for n, token in enumerate(ids[:end]) if token not in special]
                weights = found.attention[at][places][:, : len(source.ids)] if found.attention is not None else None
                prompt = source.ids if self.task == "continuation" else []
                text = self.tokenizer.decode(prompt + ids[:end], skip_special_tokens=True)
                names = self.token_names([ids[n] for n in places])
                outputs.append(Output(text, float(found.scores[at]), names, weights if alignments else None))
            yield outputs

    def _classify_texts(self, encoded: list[Any]) -> Iterator[Any]:
        """:class:`Classified` for a classifier; for tokens, a tuple of one for each; for masked tokens, their words."""
        arrays = self.arrays(encoded)
        for one in encoded if self.config.get("sentence_pair") else ():
            if {0, 1} - set(one.type_ids):
                raise ValueError("a pair needs two sentences, and one of them has no token")
        found = self.outputs("model", **arrays)
        for row, one in enumerate(encoded):
            logits, tokens = found["logits"][row], self.token_names(one.ids)
            if self.task == "classification":
                attention = found["attention"][row][:, : len(one.ids)] if "attention" in found else None
                yield self._classified(logits, tokens, attention)
            elif self.task == "token-classification":
                yield tuple(self._classified(logits[n], (token,), None) for n, token in enumerate(tokens))
            else:
                mask = self.tokenizer.token_to_id(self._json("tokenizer_config.json").get("mask_token") or "")
                best = [int(logits[n].argmax()) for n, token in enumerate(one.ids) if token == mask]
                yield [self.tokenizer.decode([token]).strip() for token in best]

    def _classified(self, logits: np.ndarray, tokens: tuple[str, ...], attention: np.ndarray | None) -> Classified:
        names = self.config.get("id2label") or {str(n): f"LABEL_{n}" for n in range(len(logits))}
        problem = self.config.get("problem_type")
        if problem == "regression" or (len(logits) == 1 and problem != "multi_label_classification"):
            values = logits
        elif problem == "multi_label_classification":
            values = 1 / (1 + np.exp(-logits))
        else:
            values = np.exp(_log_softmax(logits[None]))[0]
        by_name = {names[str(n)]: float(value) for n, value in enumerate(values)}
        return Classified(max(by_name, key=lambda name: by_name[name]), by_name, tokens, attention)

    def _checked(self, input_ids: Any, attention_mask: Any) -> tuple[np.ndarray, np.ndarray]:
        """The ids and the mask as int64, (B, S)."""
        ids = np.asarray(input_ids)
        mask = np.ones_like(ids) if attention_mask is None else np.asarray(attention_mask)
        if ids.ndim != 2 or ids.size == 0 or ids.dtype.kind not in "iu" or mask.shape != ids.shape:
            shapes = f"got shapes {ids.shape} and {mask.shape}, and ids of {ids.dtype}"
            raise ValueError(f"input_ids and attention_mask must be whole numbers of shape (batch, length); {shapes}")
        size, positions = self.config["vocab_size"], self.config.get("max_position_embeddings")
        if len(wrong := ids[(ids < 0) | (ids >= size)]):
            raise ValueError(f"input_ids has the id {wrong[0]}; ids of this model are 0 to {size - 1}")
        if not np.isin(mask, (0, 1)).all():
            raise ValueError("attention_mask must be 1 on real tokens and 0 on padding")
        if self.config.get("position_embedding") == "learned" and mask.sum(axis=1).max() > positions:
            raise ValueError(f"a text of {mask.sum(axis=1).max()} tokens is longer than the {positions} positions")
        return ids.astype(np.int64), mask.astype(np.int64)

    def session(self, graph: str) -> tuple[onnxruntime.InferenceSession, list[str], list[str]]:
        """``graph``.onnx in ONNX Runtime, and the names of its inputs and outputs."""
        if graph not in self._sessions:
            path, options = self.folder / f"{graph}.onnx", onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads or 0
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            ports = [[port.name for port in some] for some in (session.get_inputs(), session.get_outputs())]
            self._sessions[graph] = session, *ports
        return self._sessions[graph]

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


class _Steps:
    """A decoder, one token after the other; its rows are the beams or samples of each source, which share it."""

    def __init__(self, model: OnnxModel, ids: np.ndarray, mask: np.ndarray, repeats: int) -> None:
        read = model.outputs("encoder", input_ids=ids, attention_mask=mask)
        _, _, names = model.session("step")
        self.model = model
        self.state = {name: part.repeat(repeats, axis=0) for name, part in read.items() if f"next_{name}" in names}
        self.shared = {name: part for name, part in read.items() if name not in self.state} | {"attention_mask": mask}
        self.tokens = self.shared.pop("tokens").repeat(repeats)
        self.every_attention: list[np.ndarray] = []

    def read(self) -> np.ndarray:
        """Read the last tokens; returns the logits (R, V) of the next."""
        found = self.model.outputs("step", **self.shared, **self.state, tokens=self.tokens)
        self.state = {name: found[f"next_{name}"] for name in self.state}
        if "attention" in found:
            self.every_attention.append(found["attention"])
        return found["logits"]

    def go_on(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Continue from the states of ``rows`` with new tokens."""
        self.tokens = tokens
        if not np.array_equal(rows, np.arange(len(rows))):
            self.state = {name: value[rows] for name, value in self.state.items()}

    def attention(self, rows: np.ndarray | None = None) -> np.ndarray | None:
        """(N, T, S) of sequences that were row ``rows[:, t]`` at step t, by default the same row at every step."""
        if not self.every_attention:
            return None
        every = np.stack(self.every_attention, axis=1)  # (R, steps, S)
        return every if rows is None else every[rows, np.arange(rows.shape[1])]


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _warped(logits: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """The logits (R, V) over the temperature, -inf for tokens that are not among the top ones."""
    logits = logits / np.float32(temperature)
    if 0 < top_k < logits.shape[1]:
        least = np.partition(logits, -top_k, axis=1)[:, -top_k, None]
        logits = np.where(logits < least, -np.inf, logits)
    if top_p < 1:
        order = logits.argsort(axis=1)
        shares = np.exp(_log_softmax(np.take_along_axis(logits, order, axis=1))).cumsum(axis=1)
        is_left_out = shares <= 1 - top_p
        is_left_out[:, -1] = False
        np.put_along_axis(logits, order, np.where(is_left_out, -np.inf, np.take_along_axis(logits, order, 1)), axis=1)
    return logits


def _best(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``count`` largest values of every row and their places, the largest first."""
    place = np.argpartition(-values, count - 1, axis=1)[:, :count] if count < values.shape[1] else None
    chosen = values if place is None else np.take_along_axis(values, place, axis=1)
    order = np.argsort(-chosen, axis=1, kind="stable")
    best = order if place is None else np.take_along_axis(place, order, axis=1)
    return np.take_along_axis(values, best, axis=1), best


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """``values`` (B, N, ...) in the order of ``index`` (B, C)."""
    return values[np.arange(len(values))[:, None], index]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Run an exported model. Without texts it reads one from each line.")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="for a model of pairs with a tab between the two")
    parser.add_argument("--folder", type=Path, help="default: the folder of this file")
    parser.add_argument("--n-best", type=int, default=1, help="outputs of each text, with log p (default: 1)")
    parser.add_argument("--num-beams", type=int, help="1 is greedy search (default: the model's)")
    parser.add_argument("--max-new-tokens", type=int, help="default: the model's")
    parser.add_argument("--sample", action="store_true", help="draw samples")
    parser.add_argument("--seed", type=int, help="of the samples")
    parser.add_argument("--alignments", action="store_true", help="print what each token attends to most")
    options = vars(parser.parse_args(arguments))
    texts = options.pop("texts") or [line.strip() for line in sys.stdin if line.strip()]
    try:
        model = OnnxModel(options.pop("folder"))
        if model.generates:
            options["do_sample"] = options.pop("sample") or None
            for text, outputs in zip(texts, model(texts, **options), strict=True):
                for output in outputs:
                    print(text, output.text, *([f"{output.score:.2f}"] if len(outputs) > 1 else []), sep="\t")
                    if output.alignment is not None:
                        names = model.token_names(model.tokenizer.encode(text).ids)
                        best = [names[place] for place in output.alignment.argmax(axis=1)]
                        print(*(f"{token}<-{name}" for token, name in zip(output.tokens, best, strict=True)))
            return
        sides = [text.partition("\t") for text in texts]
        pairs = [pair for _, tab, pair in sides if tab] or None
        for text, found in zip(texts, model([side[0] for side in sides], pairs), strict=True):
            print(" ".join(getattr(one, "label", one) for one in np.atleast_1d(found)), text, sep="\t")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
