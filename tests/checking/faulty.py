"""Faults of public tutorials, courses and libraries, re-created in our own code, each with a link to its report."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from tests.checking.correct import CachedGPT, LuongDecoder


class Faulty(NamedTuple):
    """A fault: its name, a link to its report, and the arguments of check."""

    fault: str
    source: str
    make: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


class WeightsFromTheInput(nn.Module):
    """Scores from the decoder's state alone, one for every place of the source."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Linear(12, 30)

    def forward(self, query: Tensor, keys: Tensor) -> Any:
        weights = F.softmax(self.attn(query)[:, : keys.shape[1]], dim=1)
        return torch.bmm(weights.unsqueeze(1), keys)[:, 0], weights


class MaskNeverApplied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_in = nn.Linear(12, 12, bias=False)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> Any:
        weights = (self.linear_in(query) @ memory.transpose(1, 2)).softmax(-1)
        return weights @ memory, weights


class UnpackedEncoder(nn.Module):
    def __init__(self, bidirectional: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 6)
        self.gru = nn.GRU(6, 5, batch_first=True, bidirectional=bidirectional)

    def forward(self, input_ids: Tensor) -> Any:
        return self.gru(self.embedding(input_ids))


class UnpackedSeq2Seq(nn.Module):
    """The decoder starts from a state that was read from padding; its attention is masked correctly."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 8, padding_idx=0)
        self.encoder, self.decoder = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(16, 17)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, state = self.encoder(self.embed(src))
        states, _ = self.decoder(self.embed(tgt), state)
        scores = (states @ memory.mT).masked_fill((src == 0)[:, None], float("-inf"))
        return self.out(torch.cat([states, scores.softmax(-1) @ memory], dim=-1))


def loss_of_everything(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def loss_over_all_steps(logits: Tensor, labels: Tensor, valid_len: Tensor) -> Tensor:
    real = torch.arange(labels.shape[1]) < valid_len[:, None]
    each = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (each * real).mean(dim=1).mean()


class SoftmaxOverRows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_out = nn.Linear(20, 10, bias=False)

    def forward(self, query: Tensor, context: Tensor) -> Any:
        rows, queries, _ = query.shape
        scores = torch.bmm(query, context.transpose(1, 2)).view(rows * queries, -1)
        weights = F.softmax(scores, dim=0).view(rows, queries, -1)
        mixed = torch.cat([torch.bmm(weights, context), query], dim=2)
        return torch.tanh(self.linear_out(mixed)), weights


class SoftmaxOfOneNumber(nn.Module):
    """One score in each row of a column: every weight is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Linear(20, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        pairs = torch.cat([x[:, :, None].expand(-1, -1, length, -1), x[:, None].expand(-1, length, -1, -1)], dim=-1)
        weights = F.softmax(self.attn(pairs.reshape(-1, 2 * width)), dim=1)
        return weights.view(rows, length, length) @ x


class CausalHead(nn.Module):
    """One head of 4 in a width of 16, with its scale, its triangle and its dropout as parameters."""

    def __init__(self, scale: float = 4**-0.5, triangle: bool = True, diagonal: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(16, 4, bias=False) for _ in range(3))
        self.scale, self.triangle, self.diagonal, self.rate = scale, triangle, diagonal, dropout

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * self.scale
        if self.triangle:
            tril = torch.tril(torch.ones(length, length), diagonal=self.diagonal)
            scores = scores.masked_fill(tril == 0, float("-inf"))
        return F.dropout(F.softmax(scores, dim=-1), self.rate) @ self.value(x)


class Heads(nn.Module):
    """Attention of four heads with one fault."""

    def __init__(self, fault: str, width: int = 24, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads, self.d_k, self.fault = num_heads, width // num_heads, fault
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        if self.fault == "split":
            return x.view(x.shape[0] * self.num_heads, -1, self.d_k)
        parts = x.view(x.shape[0], -1, self.num_heads, self.d_k).transpose(1, 2)
        return parts.reshape(-1, x.shape[1], self.d_k)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        rows, queries, width = query.shape
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        scores = q @ k.transpose(1, 2)
        if self.fault != "no scale":
            scores = scores / math.sqrt(self.d_k)
        if mask is not None:  # (B, S), 1 where real
            if self.fault == "repeat":
                mask = mask.repeat(self.num_heads, 1)
            else:
                mask = mask.repeat_interleave(self.num_heads, dim=0)
            mask = mask[:, None]
            if self.fault == "tiny":
                scores = scores.masked_fill(mask == 0, 1e-9)
            elif self.fault == "product":
                scores = scores * mask
            elif self.fault not in ("after", "infinite after"):
                scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(dim=-1)
        if mask is not None and self.fault == "after":
            weights = weights * mask
        if mask is not None and self.fault == "infinite after":
            weights = weights.masked_fill(mask == 0, float("-inf"))
        if self.fault == "relu":
            weights = F.relu(scores)
        out = weights @ v
        if self.fault == "merge":
            return self.o(out.view(rows, queries, width))
        if self.fault == "heads before rows":
            out = out.view(self.num_heads, rows, queries, self.d_k).permute(1, 2, 0, 3)
            return self.o(out.reshape(rows, queries, width))
        return self.o(out.view(rows, self.num_heads, queries, self.d_k).transpose(1, 2).reshape(rows, queries, width))


class DropoutAlways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(12, 36)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)


class WithoutOffset(CachedGPT):
    """Later steps use position 0 again."""

    def step(self, tokens: Tensor, state: Any) -> Any:
        x = (self.token(tokens) + self.position(torch.tensor(0))).unsqueeze(1)
        x, past = self.attend(x, state["past"], state["length"])
        return self.head(x[:, 0]), {"past": past, "length": state["length"] + 1}


class GrowingCache(CachedGPT):
    def step(self, tokens: Tensor, state: Any) -> Any:
        logits, new = super().step(tokens, state)
        state.update(new)
        return logits, state


class OverwrittenFeed(LuongDecoder):
    """A step overwrites the state that it received."""

    def step(self, tokens: Tensor, state: Any) -> Any:
        logits, new = super().step(tokens, state)
        state[4].copy_(new[4])
        return logits, (*new[:4], state[4])


class HalfReordered(LuongDecoder):
    """The cells are reordered and the input feed is not."""

    def reorder(self, state: Any, rows: Tensor) -> Any:
        return *(part[rows] for part in state[:4]), state[4]


class NotReordered(CachedGPT):
    def reorder(self, state: Any, rows: Tensor) -> Any:
        return state


class RowsAsTime(nn.Module):
    """A module that expects time first and gets the batch first."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


def mask_with_next(size: int) -> Tensor:
    return torch.tril(torch.ones(size, size), diagonal=1).bool()


FAULTY = {
    "weights from the input": Faulty(
        "keys_ignored",
        "pytorch/tutorials#130, #1098",
        lambda: ((WeightsFromTheInput(), "attention"), {"width": (12, 12)}),
    ),
    "mask never applied": Faulty(
        "padding_attended", "OpenNMT/OpenNMT-py#272", lambda: ((MaskNeverApplied(), "attention"), {})
    ),
    "encoder not packed": Faulty(
        "final_state_from_padding", "pytorch/tutorials#3643", lambda: ((UnpackedEncoder(), "encoder"), {})
    ),
    "bidirectional encoder not packed": Faulty(
        "final_state_from_padding", "pytorch/pytorch#517", lambda: ((UnpackedEncoder(True), "encoder"), {})
    ),
    "decoder from padding": Faulty(
        "final_state_from_padding",
        "pytorch/tutorials#2840",
        lambda: ((UnpackedSeq2Seq(), "encoder_decoder"), {}),
    ),
    "loss of everything": Faulty(
        "loss_counts_padding", "pytorch/tutorials#3643", lambda: ((loss_of_everything, "loss"), {"pad": 0})
    ),
    "loss over all steps": Faulty(
        "loss_counts_padding", "d2l-ai/d2l-en#2707", lambda: ((loss_over_all_steps, "loss"), {"pad": 0})
    ),
    "softmax over rows": Faulty(
        "softmax_wrong_axis", "PetrochukM/PyTorch-NLP#2", lambda: ((SoftmaxOverRows(), "attention"), {"width": 10})
    ),
    "softmax of one number": Faulty(
        "softmax_wrong_axis",
        "DEEP-PolyU/KEQA_WSDM19#2",
        lambda: ((SoftmaxOfOneNumber(), "self_attention"), {"width": 10}),
    ),
    "scale of the whole width": Faulty(
        "scale_wrong",
        "karpathy/ng-video-lecture#6",
        lambda: ((CausalHead(scale=16**-0.5), "self_attention"), {}),
    ),
    "no scale": Faulty(
        "scale_missing", "PAIR-code/tiny-transformers#71", lambda: ((Heads("no scale"), "attention"), {})
    ),
    "heads merged without a transpose": Faulty(
        "heads_mixed", "jsbaan/transformer-from-scratch#6", lambda: ((Heads("merge"), "attention"), {})
    ),
    "heads split without a transpose": Faulty(
        "heads_mixed", "reczoo/FuxiCTR#30", lambda: ((Heads("split"), "attention"), {})
    ),
    "heads before rows": Faulty(
        "heads_mixed",
        "gazelle93/Transformer-Various-Positional-Encoding#1",
        lambda: ((Heads("heads before rows"), "attention"), {}),
    ),
    "mask of other rows": Faulty(
        "padding_attended",
        "lsdefine/attention-is-all-you-need-keras#36",
        lambda: ((Heads("repeat"), "attention"), {}),
    ),
    "functional dropout": Faulty(
        "dropout_in_eval", "rixwew/pytorch-fm#21", lambda: ((CausalHead(dropout=0.1), "self_attention"), {})
    ),
    "dropout_p": Faulty(
        "dropout_in_eval", "facebookresearch/vjepa2#160", lambda: ((DropoutAlways(), "self_attention"), {})
    ),
    "mask after the softmax": Faulty(
        "mask_after_softmax",
        "huggingface/pytorch-image-models#2236",
        lambda: ((Heads("after"), "attention"), {}),
    ),
    "-inf after the softmax": Faulty(
        "mask_after_softmax", "gabrielmittag/NISQA#17", lambda: ((Heads("infinite after"), "attention"), {})
    ),
    "1e-9 for -1e9": Faulty("padding_attended", "awslabs/gluonts#1401", lambda: ((Heads("tiny"), "attention"), {})),
    "scores times mask": Faulty(
        "padding_attended", "georg-wolflein/good-features#1", lambda: ((Heads("product"), "attention"), {})
    ),
    "no causal mask": Faulty(
        "future_leaked",
        "alex-matton/causal-transformer-decoder#1",
        lambda: ((CausalHead(triangle=False), "self_attention"), {"causal": True}),
    ),
    "one step into the future": Faulty(
        "future_leaked",
        "jadore801120/attention-is-all-you-need-pytorch#19",
        lambda: ((CausalHead(diagonal=1), "self_attention"), {}),
    ),
    "triangle with the next": Faulty(
        "future_leaked", "huggingface/transformers#48745", lambda: ((mask_with_next, "mask"), {})
    ),
    "relu for softmax": Faulty("weights_not_normalised", "keon/seq2seq#6", lambda: ((Heads("relu"), "attention"), {})),
    "positions without offset": Faulty(
        "step_differs", "ml-explore/mlx-lm#93", lambda: ((WithoutOffset(), "decoder_step"), {})
    ),
    "cache not reordered": Faulty(
        "beam_not_reordered", "huggingface/transformers#46612", lambda: ((NotReordered(), "decoder_step"), {})
    ),
    "half reordered": Faulty("beam_not_reordered", "allenai/OLMo#526", lambda: ((HalfReordered(), "decoder_step"), {})),
    "growing cache": Faulty(
        "cache_changed_in_place",
        "huggingface/transformers#37078",
        lambda: ((GrowingCache(), "decoder_step"), {}),
    ),
    "overwritten state": Faulty(
        "cache_changed_in_place", "FasterDecoding/REST#6", lambda: ((OverwrittenFeed(), "decoder_step"), {})
    ),
    "batch first": Faulty(
        "batch_mixed", "aipixel/AEMatter#3", lambda: ((RowsAsTime(), "self_attention"), {"batch_first": True})
    ),
}
