"""The search of the pipelines: :func:`search` with the log-probability of every target, in one pass.

Dimensions: R sequences, T target length.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteriaList

from .decoding.token_search import NEVER, search
from .loss import IGNORED
from .pipelines import labels_of


class TokenLogProbabilities(LogitsProcessor):
    """Record the log-probability of every token that greedy search or sampling chooses, without changing the logits."""

    def __init__(self) -> None:
        self.chosen: list[Tensor] = []  # (R, 1) of each step
        self.step: Tensor | None = None  # (R, vocabulary), of the token to come

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.read_last(input_ids)
        self.step = scores.log_softmax(dim=-1)
        return scores

    def read_last(self, sequences: Tensor) -> None:
        """Record the last token of the sequences (R, 1 + T)."""
        if self.step is not None:
            self.chosen.append(self.step.gather(1, sequences[:, -1:]))


def scored_search(
    model: Any,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    **model_kwargs: Any,
) -> dict[str, Tensor | None]:
    """For ``generate(custom_generate=scored_search)``: the sequences of :func:`search`, with their log-probabilities.

    A score is log p(target | source) with the end token, without length penalty. If logits processors may change the
    scores of beams, the result has None instead.

    Shape:
        - returns: sequences (R, 1 + T), scores (R,) or None

    Raises:
        SearchRefusedError, ValueError, TypeError: as :func:`search`.
    """
    config, has_beams = generation_config, generation_config.num_beams > 1
    config.return_dict_in_generate = has_beams
    recorded = TokenLogProbabilities()
    processors = logits_processor if has_beams else LogitsProcessorList([recorded, *logits_processor])
    found: Any = search(model, input_ids, processors, stopping_criteria, config, **model_kwargs)
    sequences = found.sequences if has_beams else found
    is_target = labels_of(sequences, config.eos_token_id) != IGNORED
    if not has_beams:
        recorded.read_last(sequences)
        return {"sequences": sequences, "scores": torch.cat(recorded.chosen, dim=1).where(is_target, 0.0).sum(dim=1)}
    scores = found.sequences_scores * is_target.sum(dim=1) ** float(config.length_penalty)
    is_exact = not logits_processor and bool((scores > NEVER / 2).all())  # else there are fewer targets than beams
    return {"sequences": sequences, "scores": scores if is_exact else None}
