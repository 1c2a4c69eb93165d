"""Pipelines: from texts to their best targets, with scores and alignments.

    pipeline("grapheme-to-phoneme", model="owner/name")("attention")

Transformers has no pipeline for encoder-decoders of text. These are registered when ``attnzoo`` is imported, serve the
RNN and the Transformer alike, and travel with the code of a model whose card has their ``card_tag`` (``attnzoo.hub``).

Letters in shapes: B sources, N targets of each, T target length, S source length.
"""

from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, Pipeline, PreTrainedTokenizerBase

from .alignment import forced_decode


class SourceToTargetPipeline(Pipeline):
    """What every pipeline from one text to another does, batch by batch.

    A source gives a list of its ``n_best`` targets, in the order of the beam search, each a dictionary with

    - the text, under the name that the pipeline has for it (``target_key``)
    - ``score``: log p(target | source), the end included; without the length penalty that orders the beams
    - with ``alignments=True`` ``source_tokens``, ``target_tokens`` and ``alignment``: for every target token the weight
      of every source token when it was predicted; of a Transformer that in the last layer, as the mean of its heads

    Arguments of ``generate()``, such as ``num_beams``, are taken where the pipeline is made and at every call.

    Raises:
        ValueError: a source that is no text or is empty, ``n_best`` below 1, or alignments of a model that has none.
    """

    _load_tokenizer: Any = True
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_feature_extractor: Any = False
    _pipeline_calls_generate = True

    model: Any
    tokenizer: Any
    auto_class: Any = AutoModelForSeq2SeqLM
    card_tag: str
    target_key = "target_text"

    def _sanitize_parameters(
        self, n_best: int | None = None, alignments: bool | None = None, **generate_kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if n_best is not None and n_best < 1:
            raise ValueError(f"n_best must be at least 1, got {n_best}")
        given = {"n_best": n_best, "alignments": alignments, "generate_kwargs": generate_kwargs or None}
        return {}, {name: value for name, value in given.items() if value is not None}, {}

    def preprocess(self, source: Any) -> Any:  # type: ignore[override]
        if not isinstance(source, str):
            raise ValueError(f"a source must be a text, got {source!r}")
        if not source.strip():
            raise ValueError("an empty source has no target")
        return self.tokenizer(self.normalize(source), return_tensors="pt")

    def normalize(self, source: str) -> str:
        """The source as the model was trained to read it."""
        return source

    def _forward(  # type: ignore[override]
        self,
        inputs: Any,
        n_best: int = 1,
        alignments: bool = False,
        generate_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, torch.Tensor]:
        given = generate_kwargs or {}
        config = given.get("generation_config", self.model.generation_config)
        beams = self._prepare_generate_kwargs(given).get("num_beams") or config.num_beams or 1
        options = self._prepare_generate_kwargs(given, num_beams=max(beams, n_best), num_return_sequences=n_best)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        targets = self.model.generate(input_ids=ids, attention_mask=mask, **options)[:, 1:]  # (B * N, T)
        is_end = torch.isin(targets, torch.tensor(self.model.generation_config.eos_token_id, device=targets.device))
        labels = targets.masked_fill(is_end.cumsum(dim=1) - is_end.long() > 0, -100)  # what follows the first end
        decoded = forced_decode(self.model, ids.repeat_interleave(n_best, 0), labels, mask.repeat_interleave(n_best, 0))
        outputs = {"input_ids": ids, "attention_mask": mask, "labels": labels, "scores": decoded.scores}
        if alignments:
            if decoded.alignments is None:
                raise ValueError("this model has no attention and so no alignments")
            outputs["alignments"] = decoded.alignments
        for name in outputs.keys() - {"input_ids", "attention_mask"}:
            outputs[name] = outputs[name].unflatten(0, (-1, n_best))  # (B, N, ...): a source, a row
        return outputs

    def postprocess(self, outputs: dict[str, Any]) -> list[dict[str, Any]]:  # type: ignore[override]
        is_source = outputs["attention_mask"][0].bool()
        found = []
        for number, labels in enumerate(outputs["labels"][0]):
            is_target = labels != -100
            text = self.tokenizer.decode(labels[is_target], skip_special_tokens=True)
            target: dict[str, Any] = {self.target_key: text, "score": outputs["scores"][0, number].item()}
            if "alignments" in outputs:
                target["source_tokens"] = self.tokenizer.convert_ids_to_tokens(outputs["input_ids"][0][is_source])
                target["target_tokens"] = self.tokenizer.convert_ids_to_tokens(labels[is_target])
                target["alignment"] = outputs["alignments"][0, number][is_target][:, is_source].tolist()
            found.append(target)
        return found


class GraphemeToPhonemePipeline(SourceToTargetPipeline):
    """The pronunciations of words; a character that the model was not trained on is refused.

    Every target has its ``pronunciation``, phonemes with spaces between them; see :class:`SourceToTargetPipeline`.
    """

    card_tag = "grapheme-to-phoneme"
    target_key = "pronunciation"

    def normalize(self, source: str) -> str:
        word = source.lower()  # upper-case letters are phonemes
        refuse_unknown_characters([word], self.tokenizer)
        return word


class TranslationPipeline(SourceToTargetPipeline):
    """The translations of sentences, each a ``translation_text``; see :class:`SourceToTargetPipeline`."""

    card_tag = "translation"
    target_key = "translation_text"


# Transformers refuses every task that begins as its removed pipelines did: "translation".
PIPELINES: dict[str, type[SourceToTargetPipeline]] = {
    "grapheme-to-phoneme": GraphemeToPhonemePipeline,
    "machine-translation": TranslationPipeline,
}


def refuse_unknown_characters(words: list[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise a ValueError that names the characters which the tokenizer has no token for; also for an empty word."""
    vocabulary = tokenizer.get_vocab()
    for word in words:
        if not word.strip():
            raise ValueError("an empty word has no pronunciation")
        unknown = sorted({character for character in word if character not in vocabulary})
        if unknown:
            raise ValueError(f"{word!r} has characters this model does not know: {' '.join(map(repr, unknown))}")
