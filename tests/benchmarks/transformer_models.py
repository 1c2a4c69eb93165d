"""Five Transformers of one size: ours, Hugging Face's Marian, BART and T5, and one of ``torch.nn.Transformer``.

Width 256, feed-forward 1,024, 4 heads, 3 + 3 layers, one tied matrix for a vocabulary of 8,000, dropout 0. On a GPU
they are larger: the feed-forward is always 4 times the width, and a head 64 wide. Each computes its loss as its user
would: a mean over the real target tokens and the whole vocabulary. Other differences stay: positions, biases, BART's
normalised embeddings, T5's root mean square norm and relative positions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    T5Config,
    T5ForConditionalGeneration,
)

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration
from tests.benchmarks.workload import VOCABULARY, Pairs, padded

PAD, BOS, EOS = 0, 1, 2
TOKENS: dict[str, Any] = {
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": BOS,
    "forced_eos_token_id": None,
}


class Size(NamedTuple):
    """The size of a model; with as many layers in the encoder as in the decoder."""

    width: int = 256
    layers: int = 3

    @property
    def feed_forward(self) -> int:
        return 4 * self.width

    @property
    def heads(self) -> int:
        return self.width // 64


Batch = dict[str, Tensor]


class TorchTransformer(nn.Module):
    """``torch.nn.Transformer`` between a tied embedding and its transpose, as in its tutorials."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, size.width)
        self.positions = nn.Embedding(256, size.width)
        sizes = size.width, size.heads, size.layers, size.layers, size.feed_forward
        self.transformer = nn.Transformer(*sizes, dropout=0.0, batch_first=True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        start = labels.new_full((len(labels), 1), BOS)
        target = torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, PAD)], dim=1)
        length = target.shape[1]
        is_padding = attention_mask == 0
        hidden = self.transformer(
            self._embed(input_ids),
            self._embed(target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool, device=labels.device).triu(1),
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
            tgt_is_causal=True,
        )
        logits = hidden @ self.embedding.weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def _embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions.weight[: ids.shape[1]]


def bart_sizes(size: Size) -> dict[str, Any]:
    """The arguments of a config of BART or Marian."""
    return {
        "vocab_size": VOCABULARY,
        "d_model": size.width,
        "encoder_layers": size.layers,
        "decoder_layers": size.layers,
        "encoder_attention_heads": size.heads,
        "decoder_attention_heads": size.heads,
        "encoder_ffn_dim": size.feed_forward,
        "decoder_ffn_dim": size.feed_forward,
        "dropout": 0.0,
        "activation_function": "relu",
        "scale_embedding": True,
        "max_position_embeddings": 256,
    }


def ours(size: Size) -> SmallTransformerForConditionalGeneration:
    """The paper's model of this size."""
    return SmallTransformerForConditionalGeneration(
        SmallTransformerConfig(
            vocab_size=VOCABULARY,
            hidden_size=size.width,
            intermediate_size=size.feed_forward,
            num_attention_heads=size.heads,
            num_hidden_layers=size.layers,
            dropout=0.0,
        )
    )


def t5(size: Size) -> T5ForConditionalGeneration:
    """T5 1.0, whose feed-forward is also a ReLU between two matrices."""
    tokens = {name: value for name, value in TOKENS.items() if name not in ("forced_eos_token_id", "bos_token_id")}
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=size.width,
            d_kv=size.width // size.heads,
            d_ff=size.feed_forward,
            num_layers=size.layers,
            num_heads=size.heads,
            dropout_rate=0.0,
            **tokens,
        )
    )


MODELS: dict[str, Callable[[Size], nn.Module]] = {
    "attnzoo": ours,
    "Marian": lambda size: MarianMTModel(MarianConfig(**bart_sizes(size), **TOKENS)),
    "BART": lambda size: BartForConditionalGeneration(BartConfig(**bart_sizes(size), **TOKENS)),
    "T5": t5,
    "torch.nn.Transformer": TorchTransformer,
}


SMALL = Size()


def build(name: str, size: Size = SMALL) -> nn.Module:
    """The model, with the same seed for all models."""
    torch.manual_seed(1)
    return MODELS[name](size)


def batch_of(pairs: Pairs) -> Batch:
    """The batch, which is the same for every model: sources and labels end with EOS."""
    input_ids = padded([[*source, EOS] for source in pairs.sources], PAD)
    labels = padded([[*target, EOS] for target in pairs.targets], -100)
    return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long(), "labels": labels}


def loss_of(name: str, model: nn.Module, batch: Batch) -> Tensor:
    """The loss as a user of the model computes it."""
    if name == "torch.nn.Transformer":
        return model(**batch)
    return model(**batch, **({"skip_logits": True} if name == "attnzoo" else {"use_cache": False})).loss
