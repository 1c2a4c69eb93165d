"""An exported model for pipelines: ONNX Runtime computes, and arguments and outputs are PyTorch's tensors.

    model = OnnxForPipelines("g2p-onnx")
    pipeline("grapheme-to-phoneme", model=model, tokenizer="g2p-onnx")("attention", alignments=True)

Dimensions: B texts, N outputs of each, S source length, T tokens, K labels, V vocabulary size.
"""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, GenerationConfig
from transformers.modeling_outputs import Seq2SeqLMOutput, SequenceClassifierOutput

from ..generation_checks import check_generation
from .run import OnnxModel

TASKS = ("text-to-text", "classification")


class OnnxForPipelines(nn.Module):
    """An exported model that the pipelines of attnzoo, ``text-classification`` and :func:`attnzoo.align` accept.

    Args:
        folder: a folder that ``attnzoo export`` wrote, of a text-to-text model or a text classifier
        threads: the threads of ONNX Runtime; None is one for every core

    Raises:
        FileNotFoundError: no such folder, or no exported model in it.
        ValueError: the exported model has another task.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        super().__init__()
        self.onnx = OnnxModel(folder, threads)
        if self.onnx.task not in TASKS:
            raise ValueError(f"a pipeline needs an export for {' or '.join(TASKS)}; {folder} is for {self.onnx.task}")
        self.config = AutoConfig.from_pretrained(folder)
        self.name_or_path = str(folder)
        self.device, self.dtype = torch.device("cpu"), torch.float32
        if self.can_generate():
            check_generation(self.onnx.generation, self.config.vocab_size)
            self.generation_config = GenerationConfig.from_pretrained(folder)

    def can_generate(self) -> bool:
        """Whether the export generates texts; a classifier does not."""
        return self.onnx.generates

    def generate(self, **options: Any) -> Tensor | dict[str, Tensor]:
        """The best outputs or samples; with a ``custom_generate``, such as that of the pipelines, also log p of each.

        Args:
            options: ``input_ids``, ``attention_mask``, ``num_return_sequences``, and the options of
                :meth:`OnnxModel.generate`. ONNX Runtime runs the search, with ``custom_generate`` too

        Shape:
            - sequences: (B * N, 1 + T), after the start token; scores: (B * N,)

        Raises:
            ValueError: an export does not have an option, or its value is out of range.
        """
        options = {name: value for name, value in options.items() if value is not None}
        options.pop("return_dict_in_generate", None)
        with_scores = options.pop("custom_generate", None) is not None
        options["n_best"] = options.pop("num_return_sequences", 1)
        if options.get("do_sample", self.onnx.generation.get("do_sample")) and "seed" not in options:
            options["seed"] = int(torch.randint(2**31, ()))  # torch.manual_seed makes samples repeatable
        arrays = {name: options[name].numpy() for name in ("input_ids", "attention_mask") if name in options}
        if unknown := options.keys() - inspect.signature(self.onnx.generate).parameters.keys():
            raise ValueError(f"an exported model does not have the options {', '.join(sorted(unknown))}")
        found = self.onnx.generate(**options | arrays)
        start = torch.full((len(found.tokens), 1), self.config.decoder_start_token_id)
        sequences = torch.cat([start, torch.from_numpy(found.tokens)], dim=1)
        return {"sequences": sequences, "scores": torch.from_numpy(found.scores)} if with_scores else sequences

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Any:
        """The logits: of ``labels`` (B, T), read one after the other, or of a text, (B, K). They have no gradient.

        ``cross_attentions`` has one layer with one head: the alignment, (B, 1, T, S). A structured self-attentive
        classifier's hops are the one layer of ``attentions``.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.can_generate():
            labels = inputs["labels"].clamp(min=0)  # padding is -100; any token there leaves earlier logits unchanged
            logits, attention = self.onnx.forced_decode(input_ids.numpy(), mask.numpy(), labels.numpy())
            cross = None if attention is None else (torch.from_numpy(attention)[:, None],)
            return Seq2SeqLMOutput(logits=torch.from_numpy(logits), cross_attentions=cross)
        segments = inputs.get("token_type_ids", torch.zeros_like(input_ids))
        arrays = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": segments}
        found = self.onnx.outputs("model", **{name: part.numpy() for name, part in arrays.items()})
        hops = (torch.from_numpy(found["attention"]),) if "attention" in found else None
        return SequenceClassifierOutput(logits=torch.from_numpy(found["logits"]), attentions=hops)
