"""Faults that show only on some input: in some heads, queries, words or rows, or in what a mask does."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from tests.checking.decoder_blocks import NeedsMasks, OwnTriangle, TwoMasks
from tests.checking.score_forms import CausalTorch, Leaks, Scores, called_before

WIDTH, HEADS = 12, 3
Made = tuple[tuple[Any, ...], dict[str, Any]]


class Attention(nn.Module):
    """Attention of several heads to another sequence or to itself; ``fault`` says what its author did wrong."""

    def __init__(self, fault: str = "", num_heads: int = HEADS, causal: bool = False) -> None:
        super().__init__()
        self.fault, self.num_heads, self.causal = fault, num_heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        if self.fault == "scores of query 0":
            q = q[:, :, :1].expand_as(q)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            if self.fault == "mask inverted in place":
                mask = mask.logical_not_().logical_not() if mask.dtype == torch.bool else mask.sub_(1).add(1)
            scores = scores.masked_fill(mask[:, None, None] == 0, -1e9)
        if self.causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -1e9)
        weights = scores.softmax(-1)
        used = weights
        if self.fault == "weights of query 0":
            used = weights[:, :, :1].expand_as(weights)
        if self.fault == "weights of head 0":
            used = weights[:, :1]
        out = used @ v
        if self.fault == "first head alone":
            out = torch.cat([out[:, :1], torch.zeros_like(out[:, 1:])], dim=1)
        if self.fault == "last head left out":
            out = torch.cat([out[:, :-1], out[:, :1]], dim=1)
        if self.fault == "one output for all queries":
            out = out.mean(dim=2, keepdim=True)
        if self.fault == "one query":
            out = out[:, :, :1]
        if self.fault == "joined by transpose(2, 3)":
            out = self.o(out.transpose(2, 3).reshape(query.shape))
        else:
            out = self.o(out.transpose(1, 2).flatten(2))
        if self.fault == "-inf in hidden rows" and mask is not None:
            out = out.masked_fill((mask == 0).all(-1)[:, None, None], float("-inf"))
        if self.fault == "scores returned":
            return out, scores
        if self.fault == "scores of one head returned":
            return out, scores.mean(dim=1)
        return out, weights


class Cross(Attention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return self.attend(query, key, value, mask)


class Own(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.attend(x, x, x, mask)


class HeadsInALoop(nn.Module):
    """Heads in a list; the output has that of the first one in all places."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault, self.num_heads = fault, HEADS
        self.parts = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH // HEADS) for _ in range(HEADS))
        self.o = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        heads = []
        for part in self.parts:
            q, k, v = part(x).chunk(3, dim=-1)
            heads.append((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v)
        if self.fault == "first head alone":
            heads = heads[:1] * HEADS
        if self.fault == "last head left out":
            heads[-1] = heads[0]
        return self.o(torch.cat(heads, dim=-1))


class Additive(nn.Module):
    """Bahdanau's attention without a projection of the values; it returns scores in place of weights."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.w, self.u, self.v = nn.Linear(6, 7), nn.Linear(10, 7), nn.Linear(7, 1)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> Any:
        scores = self.v(torch.tanh(self.w(query)[:, None] + self.u(keys)))[..., 0]
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = scores.softmax(-1)
        context = (weights[..., None] * keys).sum(1)
        return context, scores if self.fault else weights


class OneHead(nn.Module):
    """Attention of one head to itself."""

    def __init__(self, fault: str = "", triangle: bool = False) -> None:
        super().__init__()
        self.fault, self.triangle = fault, triangle
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.fault == "scores of query 0":
            q = q[:, :1]
        scores = (q @ k.mT / math.sqrt(WIDTH)).expand(-1, x.shape[1], -1)
        if self.triangle:
            scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril() == 0, float("-inf"))
        weights = scores.softmax(-1)
        if self.fault == "weights of query 0":
            weights = weights[:, :1].expand_as(weights)
        return weights @ v


class TriangularHead(OneHead):
    def __init__(self, fault: str = "") -> None:
        super().__init__(fault, triangle=True)


class OneHeadCross(nn.Module):
    """Attention of one head to another sequence."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q = self.q(query)
        if self.fault == "scores of query 0":
            q = q[:, :1].expand_as(q)
        if self.fault == "mean of the queries":
            q = q.mean(dim=1, keepdim=True).expand_as(q)
        weights = (q @ self.k(key).mT / math.sqrt(WIDTH)).softmax(-1)
        if self.fault == "weights of query 0":
            weights = weights[:, :1].expand_as(weights)
        return weights @ self.v(value)


class InvertedSdpa(nn.Module):
    """It takes a mask that is True where attention is allowed, and gives torch its opposite."""

    def __init__(self, fault: str = "", num_heads: int = HEADS) -> None:
        super().__init__()
        self.fault, self.num_heads = fault, num_heads
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        shown = mask[:, None, None].bool()
        y = F.scaled_dot_product_attention(*parts, attn_mask=~shown if self.fault else shown)
        return self.o(y.transpose(1, 2).flatten(2))


def inverted_function(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=~mask[:, None])


def upright_function(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None])


class SmallestNumber(nn.Module):
    """Masks filled with the smallest number of the type; heads by reshape, with or without a transpose."""

    def __init__(self, fault: str = "", of_pairs: bool = False) -> None:
        super().__init__()
        self.fault, self.of_pairs, self.num_heads = fault, of_pairs, HEADS
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        if self.fault:
            return x.reshape(x.shape[0], self.num_heads, x.shape[1], -1)
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        mask = mask[:, None] if self.of_pairs else mask[:, None, None]
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
        out = scores.softmax(-1) @ v
        out = out.reshape(query.shape) if self.fault == "split and joined" else out.transpose(1, 2).reshape(query.shape)
        return self.o(out)


class OptionalMask(SmallestNumber):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        shape = (len(query), query.shape[1], key.shape[1]) if self.of_pairs else (len(query), key.shape[1])
        return super().forward(query, key, value, torch.ones(shape) if mask is None else mask)


class MaskOfItself(SmallestNumber):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, x, mask)


class Encoder(nn.Module):
    """A recurrent encoder that is right but for what ``fault`` says."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.embed, self.rnn = nn.Embedding(17, 6, padding_idx=0), nn.GRU(6, 5, batch_first=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Any:
        if self.fault == "last word":
            lengths = (lengths - 1).clamp(min=1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.rnn(packed)
        outputs = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])[0]
        if self.fault == "zeros":
            return outputs * 0, state * 0
        if self.fault == "logarithm":
            return outputs.log(), state
        if self.fault == "ones":
            return torch.ones_like(outputs), torch.ones_like(state)
        if self.fault == "state of zeros":
            return outputs, state * 0
        if self.fault == "outputs of zeros":
            return outputs * 0, state
        return outputs, state


class Pooled(nn.Module):
    """The mean or the largest of the words' vectors; it may leave out the first or the last column."""

    def __init__(self, fault: str = "", largest: bool = False) -> None:
        super().__init__()
        self.fault, self.largest, self.embed = fault, largest, nn.Embedding(17, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x, real = self.embed(ids), mask.bool()[..., None]
        if self.fault == "last column":
            x, real = x[:, :-1], real[:, :-1]
        if self.fault == "first column":
            x, real = x[:, 1:], real[:, 1:]
        if self.largest:
            return x.masked_fill(~real, -1e9).amax(dim=1)
        return (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


class LanguageModel(nn.Module):
    """A recurrent language model; it may return constants or not read its last word."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.embed, self.rnn, self.out = nn.Embedding(17, 6), nn.GRU(6, 5, batch_first=True), nn.Linear(5, 17)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.fault == "shifted":
            x = F.pad(x[:, :-1], (0, 0, 1, 0))
        logits = self.out(self.rnn(x)[0])
        return logits * 0 if self.fault == "zeros" else logits


class Translator(nn.Module):
    """An encoder-decoder; its decoder may forget the source, or see its first word alone."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.embed, self.rnn, self.out = nn.Embedding(17, 6), nn.GRU(6, 6, batch_first=True), nn.Linear(12, 17)

    def forward(self, src: Tensor, src_mask: Tensor, tgt: Tensor) -> Tensor:
        memory, states = self.embed(src), self.rnn(self.embed(tgt))[0]
        if self.fault == "source forgotten":
            memory = torch.ones_like(memory)
        if self.fault == "last word":
            memory, src_mask = memory[:, :-1], src_mask[:, :-1]
        if self.fault == "target forgotten":
            states = torch.ones_like(states)
        scores = (states @ memory.mT).masked_fill(src_mask[:, None] == 0, -1e9)
        return self.out(torch.cat([states, scores.softmax(-1) @ memory], dim=-1))


def loss_without_last_column(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, :-1].flatten(), ignore_index=0)


def loss_without_first_column(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=0)


def constant_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return (logits * 0).sum() + (labels != 0).sum() / (labels != 0).sum()


def shifted_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=0)


Cases = dict[str, tuple[str, Callable[[], Made]]]


def cases(fault: str, kind: str, module: Any, *variants: str, **options: Any) -> Cases:
    """Modules with a fault by their names, with the name of the fault and the arguments of check."""
    return {
        f"{module.__name__}: {variant}": (fault, lambda variant=variant: ((module(variant), kind), options))
        for variant in variants
    }


def functions(fault: str, kind: str, *parts: Any, **options: Any) -> Cases:
    return {part.__name__: (fault, lambda part=part: ((part, kind), options)) for part in parts}


OWN, CROSS, ATTEND = "self_attention", "attention", {"mask": "attend"}
OF_SCORES = ("scores returned", "scores of one head returned")
OF_QUERIES = ("scores of query 0", "weights of query 0")
OF_HEADS = ("first head alone", "last head left out")
FAULTS = {
    **cases("weights_not_normalised", CROSS, Cross, *OF_SCORES),
    **cases("weights_not_normalised", OWN, Own, *OF_SCORES),
    **cases("weights_not_normalised", CROSS, Additive, "scores returned"),
    **cases("query_ignored", CROSS, Cross, *OF_QUERIES),
    **cases("query_ignored", OWN, Own, *OF_QUERIES),
    **cases("query_ignored", OWN, OneHead, *OF_QUERIES),
    **cases("query_ignored", OWN, TriangularHead, *OF_QUERIES),
    **cases("query_ignored", CROSS, OneHeadCross, *OF_QUERIES, "mean of the queries"),
    **cases("real_positions_masked", "encoder", Encoder, "zeros", "ones", "last word", "outputs of zeros"),
    **cases("not_finite", "encoder", Encoder, "logarithm"),
    **cases("real_positions_masked", "encoder", Pooled, "first column", "last column"),
    **cases("real_positions_masked", "language_model", LanguageModel, "zeros"),
    **cases(
        "real_positions_masked", "encoder_decoder", Translator, "source forgotten", "last word", "target forgotten"
    ),
    **cases("heads_unused", CROSS, Cross, *OF_HEADS, "weights of head 0"),
    **cases("heads_unused", OWN, Own, *OF_HEADS, "weights of head 0"),
    **cases("heads_unused", OWN, HeadsInALoop, *OF_HEADS),
    **cases("input_changed_in_place", CROSS, Cross, "mask inverted in place"),
    **cases("input_changed_in_place", OWN, Own, "mask inverted in place"),
    **cases("padding_attended", OWN, InvertedSdpa, "inverted", **ATTEND),
    **functions("padding_attended", CROSS, inverted_function, **ATTEND),
    **cases("heads_mixed", CROSS, Cross, "joined by transpose(2, 3)"),
    **cases("heads_mixed", OWN, Own, "joined by transpose(2, 3)"),
    **cases("heads_mixed", CROSS, SmallestNumber, "split", "split and joined", causal=True),
    **cases("heads_mixed", CROSS, OptionalMask, "split", "split and joined", causal=True),
    **cases("heads_mixed", OWN, MaskOfItself, "split", "split and joined", causal=True),
    **functions("real_positions_masked", "loss", loss_without_last_column, constant_loss, pad=0),
    **cases("future_leaked", CROSS, TwoMasks, "ignored"),
    "NeedsMasks: ignored": ("future_leaked", lambda: ((NeedsMasks("ignored", guarded=False), CROSS), {})),
    **cases("scale_missing", OWN, Scores, "added bias, without a scale"),
    **cases("heads_unused", OWN, Scores, "divided again, without the last head"),
    **cases("future_leaked", OWN, Scores, "multiplied scores", causal=True),
    **cases("future_leaked", "language_model", Leaks, "both directions", "mean over time", "convolution", "attention"),
}
RIGHT: dict[str, Callable[[], Made]] = {
    "attention": lambda: ((Cross(), CROSS), {}),
    "self-attention": lambda: ((Own(), OWN), {}),
    "causal self-attention": lambda: ((Own(causal=True), OWN), {}),
    "heads in a loop": lambda: ((HeadsInALoop(), OWN), {}),
    "additive attention": lambda: ((Additive(), CROSS), {}),
    "one head": lambda: ((OneHead(), OWN), {}),
    "one causal head": lambda: ((TriangularHead(), OWN), {}),
    "one head, to another sequence": lambda: ((OneHeadCross(), CROSS), {}),
    "torch's function": lambda: ((InvertedSdpa(), OWN), {**ATTEND}),
    "torch's function, alone": lambda: ((upright_function, CROSS), {**ATTEND}),
    "the smallest number": lambda: ((SmallestNumber(of_pairs=True), CROSS), {"causal": True}),
    "the smallest number, of itself": lambda: ((MaskOfItself(), OWN), {}),
    "recurrent encoder": lambda: ((Encoder(), "encoder"), {}),
    "mean": lambda: ((Pooled(), "encoder"), {}),
    "maximum": lambda: ((Pooled(largest=True), "encoder"), {}),
    "language model": lambda: ((LanguageModel(), "language_model"), {}),
    "language model that shifts its input": lambda: ((LanguageModel("shifted"), "language_model"), {}),
    "translator": lambda: ((Translator(), "encoder_decoder"), {}),
    "shifted loss": lambda: ((shifted_loss, "loss"), {"pad": 0}),
    "loss without the first column": lambda: ((loss_without_first_column, "loss"), {"pad": 0}),
    "block with its own triangle": lambda: ((OwnTriangle(), CROSS), {}),
    "scores added to a bias": lambda: ((Scores("added bias"), OWN), {"scale": "sqrt"}),
    "scores added by a bias": lambda: ((Scores("bias that adds them"), OWN), {"scale": "sqrt"}),
    "scores added to a mask": lambda: ((Scores("added mask"), OWN), {"scale": "sqrt", "causal": True}),
    "weights divided again": lambda: ((Scores("divided again"), OWN), {"scale": "sqrt", "causal": True}),
    "torch's module, causal": lambda: ((CausalTorch(), OWN), {"scale": "sqrt", "causal": True}),
    "torch's module, mask of floats": lambda: ((CausalTorch(of_floats=True), OWN), {"scale": "sqrt", "causal": True}),
    "weights kept of a call": lambda: ((called_before(), OWN), {"scale": "sqrt"}),
}
