"""Run a model that attnzoo exported to ONNX. It needs numpy, tokenizers and onnxruntime, but neither torch nor attnzoo.

    python run.py attention --n-best 3

    from run import OnnxModel
    model = OnnxModel("folder")                 # by default the folder of this file
    model(["attention", "castle"], n_best=3)    # for each text its outputs, the best first

Dimensions: B texts, N outputs of each, K beams of each, R = B * K rows, S source length, T tokens,
V vocabulary size.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

if __package__:
    from ..json_files import checksum, read_mapping
    from .array_search import Generated, OnnxDecoder, beam_search, log_softmax, sample
else:  # in an exported folder, where the files lie side by side
    from array_search import Generated, OnnxDecoder, beam_search, log_softmax, sample  # type: ignore[no-redef]
    from json_files import checksum, read_mapping  # type: ignore[no-redef]

DETAILS = "export.json"  # the description of the export
TASKS = ("text-to-text", "continuation", "fill-mask", "classification", "token-classification")


class Output(NamedTuple):
    """One output that a model generates from a text, without special tokens."""

    text: str
    score: float  # log p(text | source), which includes the end token
    tokens: tuple[str, ...]
    alignment: np.ndarray | None = None  # (T, S), the weight of every source token for each token; on request


class Classified(NamedTuple):
    """The best label of a text or a token, and the values of all labels."""

    label: str
    values: dict[str, float]  # probabilities, or numbers of a regression
    tokens: tuple[str, ...]
    attention: np.ndarray | None = None  # (hops, S), of a structured self-attentive model


class OnnxModel:
    """An exported model: a call returns the outputs of texts; :meth:`generate` and :meth:`outputs` take arrays.

    Options of a call, for a model that generates:

    - ``n_best``: the number of outputs of each text
    - ``num_beams``: 1 is greedy search; the default is the model's, and at least ``n_best``
    - ``max_new_tokens``: the largest number of tokens of an output, for all texts or for each; the default is the
      model's
    - ``do_sample``, ``temperature``, ``top_k``, ``top_p``, ``seed``: samples instead of the best; the same seed gives
      the same samples for the same texts and ``batch_size``
    - ``alignments=True``: outputs have their alignments

    Args:
        folder: a folder that ``attnzoo export`` wrote
        threads: the threads of ONNX Runtime; None is one for every core
        batch_size: texts that are computed at once; a call sorts its texts by length, since in a batch the short texts
            wait for the long ones

    Raises:
        FileNotFoundError: no such folder, no exported model in it, or a file of it is missing.
        ValueError: batch_size is below 1, the folder is an export to something else, or a file has changed since the
            export.
    """

    def __init__(self, folder: str | Path | None = None, threads: int | None = None, batch_size: int = 48) -> None:
        self.folder = Path(__file__).parent if folder is None else Path(folder)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not (self.folder / DETAILS).is_file():
            raise FileNotFoundError(f"{self.folder} is not an exported model: it has no {DETAILS}; see attnzoo export")
        self.details: dict[str, Any] = self._json(DETAILS)
        require_unchanged(self.folder, self.details)
        self.config: dict[str, Any] = self._json("config.json")
        self.task: str = self.details.get("task", "")
        if self.task not in TASKS:
            raise ValueError(
                f"{self.folder} is not an ONNX export: {DETAILS} has the task {self.task!r}; export the model to ONNX"
            )
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
            if not isinstance(pairs, str | None):
                raise TypeError(f"pairs must be a text, as texts is, got {pairs!r}")
            return self([texts], None if pairs is None else [pairs], **options)[0]
        texts, run = list(texts), self._generate_texts if self.generates else self._classify_texts
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"every text needs its pair, got {len(texts)} texts and {len(pairs)} pairs")
        sources = [self._encode(text, None if pairs is None else pairs[n]) for n, text in enumerate(texts)]
        limits = options.pop("max_new_tokens", None)
        if "seed" in options:
            options["seed"] = np.random.default_rng(options["seed"])  # one for all batches, so that they differ
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
        seed: int | np.random.Generator | None = None,
    ) -> Generated:
        """The sequences of ``generate()``, without the start token or the prompt; padding may be anywhere.

        Raises:
            ValueError: arrays that are not (B, S) or have other ids than the model, or an option out of range.
        """
        ids, mask = self._checked(input_ids, attention_mask)
        do_sample = bool(self.generation.get("do_sample")) if do_sample is None else do_sample
        if num_beams is not None and (type(num_beams) is not int or num_beams < 1):
            raise ValueError(f"num_beams must be a whole number of at least 1, got {num_beams!r}")
        beams = 1 if do_sample else num_beams or max(n_best, self.generation.get("num_beams") or 1)
        if type(n_best) is not int or n_best < 1 or (beams < n_best and not do_sample):
            raise ValueError(f"n_best must be a whole number from 1 to num_beams={beams}, got {n_best!r}")
        if do_sample and num_beams not in (None, 1):
            raise ValueError(f"do_sample=True draws single sequences, got num_beams={num_beams}; leave it out")
        limits = self._limits(ids, max_new_tokens)
        if do_sample:
            options = self._stated(temperature=temperature, top_k=top_k, top_p=top_p)
            decoder = OnnxDecoder(self, ids, mask, n_best)
            return sample(decoder, np.repeat(limits, n_best), self.ends, self.padding, seed, **options)
        if beams > 1:
            fill = self.generation.get("pad_token_id") or (self.ends[0] if self.ends else self.padding)  # as there
            options = self._stated(length_penalty=None, early_stopping=None)
            decoder, size = OnnxDecoder(self, ids, mask, beams), self.config["vocab_size"]
            return beam_search(decoder, beams, n_best, limits, self.ends, fill, size, **options)
        found = self.outputs("greedy", input_ids=ids, attention_mask=mask, max_new_tokens=np.array(limits.max()))
        is_inside = np.arange(found["tokens"].shape[1]) < limits[:, None]
        tokens = np.where(is_inside, found["tokens"], self.padding)
        return Generated(tokens, np.where(is_inside, found["scores"], 0).sum(axis=1), found.get("attention"))

    def forced_decode(
        self, input_ids: np.ndarray, attention_mask: np.ndarray | None, tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The logits of every token of given outputs, and the attention. The model reads these outputs instead of its
        own.

        Shape:
            - input_ids, attention_mask: (B, S); tokens: (B * N, T), without the start token
            - returns: logits (B * N, T, V), attention (B * N, T, S) or None
        """
        ids, mask = self._checked(input_ids, attention_mask)
        if not len(tokens) or len(tokens) % len(ids):
            raise ValueError(f"every source needs equally many outputs, got {len(ids)} and {len(tokens)}")
        decoder, rows, logits = OnnxDecoder(self, ids, mask, len(tokens) // len(ids)), np.arange(len(tokens)), []
        for column in np.asarray(tokens, dtype=np.int64).T:
            logits.append(decoder.read())
            decoder.go_on(rows, column)
        return np.stack(logits, axis=1), decoder.attention()

    def _stated(self, **given: Any) -> dict[str, Any]:
        """These options; those that are None come from the generation config, if it has them."""
        found = {name: self.generation.get(name) if value is None else value for name, value in given.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _limits(self, ids: np.ndarray, given: int | np.ndarray | None) -> np.ndarray:
        """The largest number of new tokens of every text, (B,), by the rules of ``generate()``."""
        prompt = ids.shape[1] if self.task == "continuation" else 1
        given = self.generation.get("max_new_tokens") if given is None else given
        positions = self.config.get("max_position_embeddings")
        if given is None and self.generation.get("max_length") is not None:
            given = self.generation["max_length"] - prompt
        given = min(20, 20 if positions is None else positions - prompt) if given is None else given
        if np.asarray(given).dtype.kind not in "iu":
            raise ValueError(f"max_new_tokens must be a whole number, got {given!r}")
        limits = np.array(np.broadcast_to(given, len(ids)), dtype=np.int64)
        if (limits < 1).any():
            raise ValueError(f"max_new_tokens must be at least 1, got {limits.min()} after {prompt} tokens")
        if self.config.get("position_embedding") == "learned" and prompt + limits.max() - 1 > positions:
            raise ValueError(f"max_new_tokens={limits.max()} after {prompt} tokens is more than {positions} positions")
        return limits

    @cached_property
    def tokenizer(self) -> Tokenizer:
        try:
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as error:  # tokenizers raises nothing narrower
            raise ValueError(f"{self.folder / 'tokenizer.json'} cannot be loaded: {error}") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = self.tokenizer_config.get("split_special_tokens", False)
        return tokenizer

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self._json("tokenizer_config.json")

    @cached_property
    def special(self) -> set[int]:
        """The ids of the special tokens."""
        added = self.tokenizer.get_added_tokens_decoder()
        return {number for number, token in added.items() if token.special}

    @cached_property
    def unknown(self) -> int | None:
        """The id of the unknown token, if the tokenizer has one."""
        token = self.tokenizer_config.get("unk_token")
        return None if token is None else self.tokenizer.token_to_id(token)

    @cached_property
    def names(self) -> list[str]:
        """The token of every id; phonemes are without their brackets."""
        return [(self.tokenizer.id_to_token(number) or "").strip("⟦⟧") for number in range(self.config["vocab_size"])]

    def token_names(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The tokens of these ids; phonemes are without their brackets."""
        return tuple([self.names[token] for token in ids])

    def _encode(self, text: Any, pair: str | None) -> Any:
        """The tokens of a text, or of a text and its pair."""
        sides = [text] if pair is None else [text, pair]
        for side in sides:
            if not isinstance(side, str):
                raise TypeError(f"a text must be a string, got {side!r}")
        if self.task != "continuation" and not text.strip():
            raise ValueError("a text is empty; leave it out")
        if (pair is not None) != bool(self.config.get("sentence_pair")):
            raise ValueError(
                "the model reads pairs of texts; give the second ones as pairs"
                if pair is None
                else "the model reads texts, not pairs"
            )
        has = f"{text!r} has" if pair is None else f"{text!r} and {pair!r} have"
        try:
            encoded = self.tokenizer.encode(text, pair)
        except Exception as error:  # tokenizers raises nothing narrower
            normalizer = self.tokenizer.normalizer
            normalized = "".join(sides if normalizer is None else map(normalizer.normalize_str, sides))
            unknown = sorted({letter for letter in normalized if self.tokenizer.token_to_id(letter) is None})
            raise ValueError(f"{has} characters that this model does not know: {unknown}") from error
        ids = encoded.ids
        if not ids:
            raise ValueError(f"{text!r} has no tokens")
        if self.unknown in ids:
            places = zip(ids, encoded.sequence_ids, encoded.offsets, strict=True)
            unknown = [sides[number or 0][slice(*at)] for token, number, at in places if token == self.unknown]
            warnings.warn(f"{has} parts that this model does not know: {unknown}", stacklevel=4)
        return encoded

    def arrays(self, encoded: Sequence[Any]) -> dict[str, np.ndarray]:
        """input_ids, attention_mask and, for pairs, token_type_ids (B, S); prompts are padded on the left, others on
        the right.
        """
        ids = [one.ids for one in encoded]
        lengths = np.array([[len(row)] for row in ids])
        width, is_left = int(lengths.max()), self.task == "continuation"

        def padded(rows: list[list[int]], fill: int) -> np.ndarray:
            gaps = [[fill] * (width - len(row)) for row in rows]
            return np.array([gap + row if is_left else row + gap for row, gap in zip(rows, gaps, strict=True)])

        places = np.arange(width)
        mask = (places >= width - lengths) if is_left else (places < lengths)
        found = {"input_ids": padded(ids, self.padding), "attention_mask": mask.astype(np.int64)}
        if self.config.get("sentence_pair"):
            found["token_type_ids"] = padded([one.type_ids for one in encoded], 0)
        return found

    def _generate_texts(self, encoded: list[Any], alignments: bool = False, **options: Any) -> Iterator[list[Output]]:
        arrays = self.arrays(encoded)
        found = self.generate(arrays["input_ids"], arrays["attention_mask"], **options)
        n_best = len(found.tokens) // len(encoded)
        sequences, scores, is_continued = found.tokens.tolist(), found.scores.tolist(), self.task == "continuation"
        for row, source in enumerate(encoded):
            outputs = []
            for at in range(row * n_best, (row + 1) * n_best):
                ids = sequences[at]
                ids = ids[: min((ids.index(end) + 1 for end in self.ends if end in ids), default=len(ids))]
                weights = None
                if alignments and found.attention is not None:
                    places = [n for n, token in enumerate(ids) if token not in self.special]
                    weights = found.attention[at][places][:, : len(source.ids)]
                text = self.tokenizer.decode(source.ids + ids if is_continued else ids, skip_special_tokens=True)
                names = self.token_names([token for token in ids if token not in self.special])
                outputs.append(Output(text, scores[at], names, weights))
            yield outputs

    def _classify_texts(self, encoded: list[Any]) -> Iterator[Any]:
        """A :class:`Classified` of each text, or a tuple of one for each token; for masked tokens, their words."""
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
                mask = self.tokenizer.token_to_id(self.tokenizer_config.get("mask_token") or "")
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
            values = np.exp(log_softmax(logits[None]))[0]
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
        if not ((mask == 0) | (mask == 1)).all():
            raise ValueError("attention_mask must be 1 on real tokens and 0 on padding")
        if self.config.get("position_embedding") == "learned" and mask.sum(axis=1).max() > positions:
            raise ValueError(f"a text of {mask.sum(axis=1).max()} tokens is longer than the {positions} positions")
        return ids.astype(np.int64), mask.astype(np.int64)

    def session(self, graph: str) -> tuple[onnxruntime.InferenceSession, list[str], list[str]]:
        """``graph``.onnx in ONNX Runtime, and the names of its inputs and outputs."""
        if graph not in self._sessions:
            path, options = self.folder / f"{graph}.onnx", onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads or 0
            if not path.is_file():
                raise FileNotFoundError(f"{self.folder} is not complete: it has no {path.name}; export it again")
            try:
                session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # onnxruntime raises nothing narrower
                raise ValueError(f"{path} cannot be loaded; export it again: {error}") from error
            ports = [[port.name for port in some] for some in (session.get_inputs(), session.get_outputs())]
            self._sessions[graph] = session, *ports
        return self._sessions[graph]

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return read_mapping(path) if path.is_file() else {}


def require_unchanged(folder: Path, details: dict[str, Any]) -> None:
    """Raise an error unless the files of an export have the checksums in its details; older exports have none.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file has changed.
    """
    expected = details.get("sha256", {})
    if not isinstance(expected, dict) or any(Path(name).name != name for name in expected):
        raise ValueError(f"{folder / DETAILS} is damaged: its sha256 is not a mapping of files to checksums")
    for name, value in expected.items():
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} is not complete: it has no {name}; export it again")
        if checksum(folder / name) != value:
            raise ValueError(f"{folder / name} has changed since the export: its checksum differs; export it again")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Run an exported model. Without texts it reads one from each line.")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="for a model of pairs with a tab between the two")
    parser.add_argument("--folder", type=Path, help="default: the folder of this file")
    parser.add_argument("--n-best", type=int, default=1, help="outputs of each text, with log p (default: 1)")
    parser.add_argument("--num-beams", type=int, help="1 is greedy search (default: the model's)")
    parser.add_argument("--max-new-tokens", type=int, help="default: the model's")
    parser.add_argument("--sample", action="store_true", help="draw samples")
    parser.add_argument("--seed", type=int, help="the seed of the samples")
    parser.add_argument("--alignments", action="store_true", help="print what each token attends to most")
    options = vars(parser.parse_args(arguments))
    read = options.pop("texts") or sys.stdin.read().removeprefix("\ufeff").split("\n")
    texts = [text for line in read if (text := line.strip())]
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
            parts: Any = [found] if isinstance(found, Classified) else found  # one of the text, or one of each token
            print(" ".join(getattr(one, "label", one) for one in parts), text, sep="\t")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
