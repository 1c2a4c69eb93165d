"""Small models for the claims that train, and the training of several of them on one task."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    SmallTransformerConfig,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForTokenClassification,
)

from ..synthetic import FIRST, SYMBOLS, Batch, Task, accuracy, batches, fit, loss_of
from .frame import Budget

VOCABULARY = FIRST + SYMBOLS
ROWS, TEST_ROWS, TEST_SEED = 64, 1024, 1000


def recurrent(**fields: Any) -> nn.Module:
    """An RNN encoder-decoder of width 64 with LSTMs in one direction, Luong's unless ``fields`` say otherwise."""
    sizes = {"embedding_size": 32, "encoder_hidden_size": 64, "decoder_hidden_size": 64, "attention_size": 64}
    kind = {"wiring": "luong", "cell": "lstm", "bidirectional": False, "initializer_range": 0.1}
    config = AttentionalRNNConfig(**{"vocab_size": VOCABULARY, **sizes, **kind, **fields})
    return AttentionalRNNForConditionalGeneration(config)


def transformer(**fields: Any) -> nn.Module:
    """A Transformer of width 64 with two layers; with ``attention_pattern="bidirectional"`` a label for each token."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config: Any = {"vocab_size": VOCABULARY, **sizes, "dropout": 0.0, "norm": "pre", **fields}
    if config.get("attention_pattern", "encoder_decoder") == "encoder_decoder":
        return SmallTransformerForConditionalGeneration(SmallTransformerConfig(**config))
    config["num_labels"] = config["vocab_size"]
    return SmallTransformerForTokenClassification(SmallTransformerConfig(**config))


class RecurrentTagger(nn.Module):
    """Embeddings, one recurrent layer of torch, and logits for each token."""

    def __init__(self, cell: str, width: int, bidirectional: bool = False, forget_bias: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.recurrent = {"tanh": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}[cell](
            width, width, batch_first=True, bidirectional=bidirectional
        )
        self.output = nn.Linear(width * (1 + bidirectional), VOCABULARY)
        if forget_bias:
            with torch.no_grad():
                self.recurrent.bias_hh_l0[width : 2 * width] += forget_bias

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.recurrent(self.embedding(tokens))[0])


def compare(
    budget: Budget,
    models: Mapping[str, Callable[[], nn.Module]],
    task: Task,
    trained: tuple[int, int],
    tested: Sequence[int],
    steps: int,
    learning_rate: float = 2e-3,
    loss: Callable[[Any, Batch], Tensor] = loss_of,
    measure: Callable[[Any, Batch], float] = accuracy,
) -> dict[str, list[list[float]]]:
    """Train each model with each seed on lengths ``trained``: its accuracy at each length of ``tested``, by seed.

    All models see the same batches in the same order, and the same test.
    """
    found: dict[str, list[list[float]]] = {name: [[] for _ in tested] for name in models}
    rows, test_rows = budget.choose((4, 16), (ROWS, TEST_ROWS), (ROWS, TEST_ROWS))
    for name, build in models.items():
        for seed in budget.seeds:
            torch.manual_seed(seed)
            model = build()
            fit(model, batches(task, rows, trained, seed), steps, learning_rate, loss)
            for place, length in zip(found[name], tested, strict=True):
                test = task(test_rows, length, torch.Generator().manual_seed(TEST_SEED + length))
                place.append(measure(model, test))
    return found


def blank(task: Task) -> Task:
    """The task for a tagger that sees the whole stream: the inputs do not give the labels away."""

    def without_answers(rows: int, length: int, generator: torch.Generator) -> Batch:
        batch = task(rows, length, generator)
        return batch._replace(inputs=torch.full_like(batch.inputs, 2))

    return without_answers
