"""The engines that run a pronunciation model: PyTorch or ONNX Runtime.

Both have the same methods and attributes: ``tokenizer``; ``num_beams`` of the model's generation config; ``end``, the
id of the end token; ``calibration``, the temperature and the bias of the word confidences.

Dimensions: B words, K beams.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.generation import StoppingCriteria

from ..alignment import AlignedPair, align, links_of
from ..decoding.token_search import search
from ..generation_checks import check_generation
from ..loading import load_trained
from ..phonemes import CLOSE, OPEN
from ..shipped_models import EXPORT

EngineName = Literal["torch", "onnx", "onnx-int8"]


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        sequences: B * K lists of token ids, without the start token; the K of a word are adjacent
        scores: log p of each sequence with its end token; None after a greedy search
    """

    sequences: list[list[int]]
    scores: list[float] | None


def load_engine(folder: str | Path, name: EngineName | None, device: str) -> Any:
    """The engine ``name`` for a model. None chooses "onnx" for an exported folder, otherwise "torch".

    Raises:
        ValueError: ``name`` is "torch" or "onnx-int8" for an exported folder, or is unknown.
        ModuleNotFoundError: onnxruntime, or a package that the export needs, is not installed.
    """
    is_exported = Path(folder, EXPORT).is_file()
    if name not in (*get_args(EngineName), None):
        raise ValueError(f"engine must be 'torch', 'onnx', 'onnx-int8' or None, got {name!r}")
    if name not in ("onnx", None) and is_exported:
        raise ValueError(f"engine={name!r} needs the folder of the PyTorch model; {folder} is an export to ONNX")
    if is_exported:
        return OnnxEngine(folder)
    if name in ("torch", None):
        return TorchEngine(folder, device)
    return OnnxEngine(folder, "int8" if name == "onnx-int8" else "float32")


def _on(name: str) -> torch.device:
    """The device of this name.

    Raises:
        ValueError: there is none.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, TypeError) as error:  # the class depends on the build of torch
        raise ValueError(f"device must be a device that torch has here, such as 'cpu', got {name!r}") from error
    return device


class TorchEngine:
    """A model in PyTorch."""

    def __init__(self, folder: str | Path, device: str) -> None:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if not config.is_encoder_decoder:
            raise ValueError(
                f"{folder} is not a model of pronunciation, but a {config.model_type} without a source and a target"
            )
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model: Any = load_trained(AutoModelForSeq2SeqLM, folder).to(_on(device))
        generation = self.model.generation_config
        if generation.stop_strings:
            reason = "a pronunciation stops at its end token; remove it from generation_config.json"
            raise ValueError(
                f"the generation config of {folder} has stop_strings={generation.stop_strings!r}: {reason}"
            )
        self.num_beams: int = generation.num_beams or 1
        self.end = _end_of(generation.eos_token_id, folder)
        self.calibration = _calibration(self.model.config.to_dict())

    def search(self, sources: list[str], beams: int, limits: list[int] | None) -> SearchResult:
        """The K best outputs of every source; ``limits`` has the largest number of new tokens of each."""
        inputs = self.tokenizer(sources, padding=True, return_tensors="pt")
        inputs = {name: inputs[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        options: dict[str, Any] = {}
        if beams > 1:
            options["length_penalty"] = 0.0  # scores are log p; divided by the length, they favour repetitions
        if limits is not None:
            options["max_new_tokens"] = max(limits)
            if min(limits) < max(limits):
                options["stopping_criteria"] = [_LengthLimits(limits, self.model.device)]
        outputs = self.model.generate(
            **inputs,
            custom_generate=search,
            num_beams=beams,
            num_return_sequences=beams,
            do_sample=False,
            return_dict_in_generate=True,
            **options,
        )
        return SearchResult(outputs.sequences[:, 1:].tolist(), outputs.sequences_scores.tolist() if beams > 1 else None)

    def align(self, sources: list[str], targets: list[str]) -> list[AlignedPair]:
        """The alignments of sources with their phonemes."""
        return align(self.model, self.tokenizer, sources, targets)


class OnnxEngine:
    """A model in ONNX Runtime. With ``weights`` it is first exported to a temporary folder, else it is an export."""

    def __init__(self, folder: str | Path, weights: Literal["float32", "int8"] | None = None) -> None:
        from ..export import OnnxModel, to_onnx  # needs onnxruntime and onnx

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if weights is not None:
            # Deleted with this object, but for files in use on Windows.
            self._folder = TemporaryDirectory(prefix="attnzoo-onnx-", ignore_cleanup_errors=True)
            model = load_trained(AutoModelForSeq2SeqLM, folder)
            folder = to_onnx(model, Path(self._folder.name, "model"), self.tokenizer, weights)
        self.model = OnnxModel(folder)
        check_generation(self.model.generation, self.model.config["vocab_size"])
        if self.model.task != "text-to-text":
            raise ValueError(f"{folder} is not a model of pronunciation, but an export for {self.model.task}")
        self.model.generation["length_penalty"] = 0.0  # as in TorchEngine.search
        self.num_beams: int = self.model.generation.get("num_beams") or 1
        self.end = _end_of(self.model.generation.get("eos_token_id"), folder)
        self.calibration = _calibration(self.model.config)

    def search(self, sources: list[str], beams: int, limits: list[int] | None) -> SearchResult:
        """The K best outputs of every source; ``limits`` has the largest number of new tokens of each."""
        inputs = self.tokenizer(sources, padding=True, return_tensors="np")
        found = self.model.generate(
            inputs["input_ids"],
            inputs["attention_mask"],
            n_best=beams,
            num_beams=beams,
            do_sample=False,
            max_new_tokens=None if limits is None else torch.tensor(limits).numpy(),
        )
        return SearchResult(found.tokens.tolist(), found.scores.tolist() if beams > 1 else None)

    def align(self, sources: list[str], targets: list[str]) -> list[AlignedPair]:
        """The alignments of sources with their phonemes; the words of a pair are letters and phonemes."""
        pairs = []
        for source, target in zip(sources, targets, strict=True):
            phones, encoded = target.split(), self.tokenizer(source, return_tensors="np")
            ids = self.tokenizer.convert_tokens_to_ids([f"{OPEN}{phone}{CLOSE}" for phone in phones])
            tokens = torch.tensor([[*ids, self.end]])
            logits, attention = self.model.forced_decode(
                encoded["input_ids"], encoded["attention_mask"], tokens.numpy()
            )
            if attention is None:
                raise ValueError(f"the model in {self.model.folder} has no attention, so it gives no alignments")
            words = self.tokenizer.convert_ids_to_tokens(encoded["input_ids"][0], skip_special_tokens=True)
            log_probs = torch.from_numpy(logits[0]).log_softmax(-1)
            score = log_probs.gather(1, tokens.mT).sum().item()
            weights = torch.from_numpy(attention[0, : len(ids), : len(words)].copy())
            pairs.append(AlignedPair(words, phones, weights, links_of(weights), score))
        return pairs


class _LengthLimits(StoppingCriteria):
    """A limit of new tokens for every word of a batch, so a word's output does not depend on the batch."""

    def __init__(self, limits: list[int], device: Any) -> None:
        self.limits = torch.tensor(limits, device=device)  # (B,)

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Any:
        """Which rows (B * candidates, T) have reached their limit."""
        return input_ids.shape[1] - 1 >= self.limits.repeat_interleave(len(input_ids) // len(self.limits))


def _end_of(tokens: int | list[int] | None, folder: str | Path) -> int:
    """The end token, the first if there are several."""
    if tokens is None:
        raise ValueError(f"the model in {folder} has no end token; state eos_token_id in its generation_config.json")
    return tokens[0] if isinstance(tokens, list) else tokens


def _calibration(config: dict[str, Any]) -> tuple[float, float]:
    """The temperature and the bias of the confidences; older models have none."""
    return config.get("confidence_temperature", 1.0), config.get("confidence_bias", 0.0)
