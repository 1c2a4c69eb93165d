"""Attention in loops over rows, queries or steps: twelve right modules, then twelve faulty ones."""

import math

import torch
from torch import nn
from torch.nn import functional


class LoopedSelfAttention(nn.Module):
    """Self-attention of one head, one query at a time."""

    def __init__(self, width=6):
        super().__init__()
        self.width = width
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask=None):
        rows = []
        for b, row in enumerate(x):
            q, k, v = self.query(row), self.key(row), self.value(row)
            contexts = []
            for i in range(len(row)):
                scores = k @ q[i] / math.sqrt(self.width)
                if mask is not None:
                    scores = scores.masked_fill(~mask[b].bool(), -torch.inf)
                contexts.append(scores.softmax(dim=0) @ v)
            rows.append(torch.stack(contexts))
        return torch.stack(rows)


class BahdanauAttention(nn.Module):
    """Additive attention of one query a row, with a loop over the keys."""

    def __init__(self, query_width=6, key_width=8, hidden=5):
        super().__init__()
        self.w = nn.Linear(query_width, hidden, bias=False)
        self.u = nn.Linear(key_width, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, query, keys, mask):
        energies = [self.v(torch.tanh(self.w(query) + self.u(keys[:, j]))) for j in range(keys.shape[1])]
        weights = torch.cat(energies, dim=1).masked_fill(mask == 0, -1e9).softmax(dim=1)
        context = sum(weights[:, j, None] * keys[:, j] for j in range(keys.shape[1]))
        return context, weights


class LuongDotAttention(nn.Module):
    """Luong's dot attention, which has no scale; it returns the weights first."""

    def forward(self, query, keys, mask):
        scores = torch.stack([(query * keys[:, j]).sum(dim=-1) for j in range(keys.shape[1])], dim=-1)
        weights = scores.masked_fill(mask == 0, -torch.inf).softmax(dim=-1)
        context = torch.zeros_like(query)
        for j in range(keys.shape[1]):
            context = context + weights[:, j, None] * keys[:, j]
        return weights, context


class LuongGeneralWeights(nn.Module):
    """Luong's general score, with time first; hidden has the shape (1, batch, width). Weights alone are returned."""

    def __init__(self, hidden_size=6):
        super().__init__()
        self.hidden_size = hidden_size
        self.attn = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden, encoder_outputs, mask):
        energies = [torch.sum(hidden[0] * self.attn(output), dim=1) for output in encoder_outputs]
        energies = torch.stack(energies, dim=1).masked_fill(mask == 0, -1e10)
        return functional.softmax(energies, dim=1).unsqueeze(1)


class Head(nn.Module):
    """One causal head with a buffer of the lower triangle."""

    def __init__(self, n_embd, head_size, block_size=32):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, head_size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x, mask=None):
        t = x.shape[1]
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:t, :t] == 0, -1e9)
        if mask is not None:
            wei = wei.masked_fill(mask[:, None, :] == 0, -1e9)
        return functional.softmax(wei, dim=-1) @ self.value(x)


class CausalHeadList(nn.Module):
    """Causal heads in a list, one after the other."""

    def __init__(self, n_embd=8, n_head=2):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, n_embd // n_head) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, mask=None):
        return self.proj(torch.cat([head(x, mask) for head in self.heads], dim=-1))


class WindowedAttention(nn.Module):
    """Causal local attention: a query sees itself and the two positions before it."""

    def __init__(self, width=6, window=3):
        super().__init__()
        self.window, self.scale, self.causal = window, width**-0.5, True
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        outputs = []
        for i in range(x.shape[1]):
            near = slice(max(0, i - self.window + 1), i + 1)
            scores = (k[:, near] @ q[:, i, :, None]).squeeze(-1) * self.scale
            weights = scores.masked_fill(mask[:, near] == 0, torch.finfo(scores.dtype).min).softmax(dim=-1)
            outputs.append((weights[..., None] * v[:, near]).sum(dim=1))
        return torch.stack(outputs, dim=1)


class HoldingEncoder(nn.Module):
    """A loop over a GRU's cell that keeps the state at padding."""

    def __init__(self, vocab_size=11, hidden_size=6):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)

    def forward(self, ids, mask):
        hidden, outputs = torch.zeros(len(ids), self.hidden_size), []
        for t in range(ids.shape[1]):
            new = self.cell(self.embedding(ids[:, t]), hidden)
            hidden = torch.where(mask[:, t, None].bool(), new, hidden)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), hidden


class TwoWayEncoder(nn.Module):
    """Two directions of LSTM cells over each row without its padding; the state is the last of both directions."""

    def __init__(self, vocab_size=11, width=5):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab_size, width)
        self.forward_cell, self.backward_cell = nn.LSTMCell(width, width), nn.LSTMCell(width, width)

    def forward(self, ids, lengths):
        outputs = torch.zeros(*ids.shape, 2 * self.width)
        last = []
        for b, length in enumerate(lengths.tolist()):
            ends = []
            for part, cell, order in (
                (slice(None, self.width), self.forward_cell, range(length)),
                (slice(self.width, None), self.backward_cell, reversed(range(length))),
            ):
                h = c = torch.zeros(self.width)
                for t in order:
                    h, c = cell(self.embedding(ids[b, t]), (h, c))
                    outputs[b, t, part] = h
                ends.append(h)
            last.append(torch.cat(ends))
        return outputs, torch.stack(last)


class AttentiveStep(nn.Module):
    """One step of a decoder with additive attention: (token, hidden, encoder_outputs, mask) to logits and hidden."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.attention = BahdanauAttention(width, width, width)
        self.rnn = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(3 * width, vocab_size)

    def forward(self, token, hidden, encoder_outputs, mask):
        embedded = self.embedding(token)
        context, _ = self.attention(hidden, encoder_outputs, mask)
        hidden = self.rnn(torch.cat([embedded, context], dim=-1), hidden)
        return self.out(torch.cat([hidden, context, embedded], dim=-1)), hidden


class InputFeedingTranslator(nn.Module):
    """Luong's encoder-decoder: dot attention, input feeding, and one embedding for both languages and the output."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab_size, width)
        self.encoder, self.decoder = nn.GRUCell(width, width), nn.GRUCell(2 * width, width)
        self.combine = nn.Linear(2 * width, width)

    def forward(self, source, source_mask, target):
        hidden, states = torch.zeros(len(source), self.width), []
        for t in range(source.shape[1]):
            new = self.encoder(self.embedding(source[:, t]), hidden)
            hidden = torch.where(source_mask[:, t, None] != 0, new, hidden)
            states.append(hidden)
        states = torch.stack(states, dim=1)
        attentional, logits = torch.zeros_like(hidden), []
        for t in range(target.shape[1]):
            hidden = self.decoder(torch.cat([self.embedding(target[:, t]), attentional], dim=-1), hidden)
            scores = torch.einsum("bd,bsd->bs", hidden, states).masked_fill(source_mask == 0, -torch.inf)
            context = torch.einsum("bs,bsd->bd", scores.softmax(dim=-1), states)
            attentional = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
            logits.append(attentional @ self.embedding.weight.T)
        return torch.stack(logits, dim=1)


class LookingBackModel(nn.Module):
    """A language model of GRU cells that attends to its own earlier states."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.width = width
        self.embedding, self.cell = nn.Embedding(vocab_size, width), nn.GRUCell(width, width)
        self.out = nn.Linear(2 * width, vocab_size)

    def forward(self, ids, mask):
        hidden, memory, logits = torch.zeros(len(ids), self.width), [], []
        for t in range(ids.shape[1]):
            new = self.cell(self.embedding(ids[:, t]), hidden)
            hidden = torch.where(mask[:, t, None].bool(), new, hidden)
            memory.append(hidden)
            past = torch.stack(memory, dim=1)
            scores = (past * hidden[:, None]).sum(dim=-1) / math.sqrt(self.width)
            weights = scores.masked_fill(mask[:, : t + 1] == 0, -1e9).softmax(dim=-1)
            context = (weights[..., None] * past).sum(dim=1)
            logits.append(self.out(torch.cat([hidden, context], dim=-1)))
        return torch.stack(logits, dim=1)


class LossOfLengths(nn.Module):
    """Cross-entropy, token by token, over each sentence's length."""

    def forward(self, logits, labels, lengths):
        total = 0.0
        for b, length in enumerate(lengths.tolist()):
            for t in range(length):
                total = total + logits[b, t].logsumexp(dim=-1) - logits[b, t, labels[b, t]]
        return total / lengths.sum()


class AttentionOverTheBatch(nn.Module):
    """Luong's dot attention. Fault: the scores are stacked as (keys, batch), and the softmax is over the batch."""

    def forward(self, query, keys, mask):
        scores = torch.stack([(query * keys[:, j]).sum(dim=-1) for j in range(keys.shape[1])])
        weights = scores.masked_fill(mask.T == 0, -1e9).softmax(dim=1)
        context = sum(weights[j, :, None] * keys[:, j] for j in range(keys.shape[1]))
        return context, weights.T


class MaskJoinedByOr(nn.Module):
    """Causal self-attention. Fault: a key is visible if it is not later or if it is no padding."""

    def __init__(self, width=6):
        super().__init__()
        self.width = width
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        q, k, v = self.query(x), self.key(x), self.value(x)
        output = torch.zeros_like(x)
        for b in range(x.shape[0]):
            for i in range(x.shape[1]):
                visible = [j for j in range(x.shape[1]) if j <= i or mask[b, j]]
                scores = torch.stack([q[b, i] @ k[b, j] for j in visible]) / math.sqrt(self.width)
                output[b, i] = scores.softmax(dim=0) @ v[b, visible]
        return output


class ZeroedKeys(nn.Module):
    """Additive attention. Fault: the keys of padding are set to zero, but still get weight."""

    def __init__(self, query_width=6, key_width=8, hidden=5):
        super().__init__()
        self.w, self.u = nn.Linear(query_width, hidden), nn.Linear(key_width, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, query, keys, mask):
        keys = keys * mask[..., None]
        energies = [self.v(torch.tanh(self.w(query) + self.u(keys[:, j]))) for j in range(keys.shape[1])]
        weights = torch.cat(energies, dim=1).softmax(dim=1)
        return sum(weights[:, j, None] * keys[:, j] for j in range(keys.shape[1])), weights


class SigmoidWeights(nn.Module):
    """Luong's general attention. Fault: the weights are sigmoids of the scores."""

    def __init__(self, width=6):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, query, keys, mask):
        scores = torch.stack([(self.linear(key) * query).sum(dim=-1) for key in keys.unbind(dim=1)], dim=1)
        weights = scores.sigmoid().masked_fill(mask == 0, 0.0)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


class QueryIgnored(nn.Module):
    """Additive attention. Fault: the energy is of the key alone, so every query has the same weights."""

    def __init__(self, query_width=6, key_width=8, hidden=5):
        super().__init__()
        self.w, self.u = nn.Linear(query_width, hidden), nn.Linear(key_width, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, query, keys, mask):
        energies = [self.v(torch.tanh(self.u(keys[:, j]))) for j in range(keys.shape[1])]
        weights = torch.cat(energies, dim=1).masked_fill(mask == 0, -torch.inf).softmax(dim=1)
        return torch.bmm(weights[:, None], keys).squeeze(1), weights


class WeightsBeforeTheMask(nn.Module):
    """Self-attention with the right output. Fault: the weights that it returns are those without the mask."""

    def __init__(self, width=6):
        super().__init__()
        self.width = width
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        q, k, v = self.query(x), self.key(x), self.value(x)
        outputs, maps = [], []
        for i in range(x.shape[1]):
            scores = torch.einsum("bd,bsd->bs", q[:, i], k) / math.sqrt(self.width)
            maps.append(scores.softmax(dim=-1))
            weights = scores.masked_fill(mask == 0, -torch.inf).softmax(dim=-1)
            outputs.append(torch.einsum("bs,bsd->bd", weights, v))
        return torch.stack(outputs, dim=1), torch.stack(maps, dim=1)


class StateAfterPadding(nn.Module):
    """A loop over a GRU's cell. Fault: the state runs on through the padding, and its last value is returned."""

    def __init__(self, vocab_size=11, hidden_size=6):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)

    def forward(self, ids, mask):
        hidden, outputs = torch.zeros(len(ids), self.hidden_size), []
        for t in range(ids.shape[1]):
            hidden = self.cell(self.embedding(ids[:, t]), hidden)
            outputs.append(hidden * mask[:, t, None])
        return torch.stack(outputs, dim=1), hidden


class BackwardFromPadding(nn.Module):
    """Two directions of GRU cells. Fault: the backward direction begins in the padding."""

    def __init__(self, vocab_size=11, width=5):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocab_size, width)
        self.right, self.left = nn.GRUCell(width, width), nn.GRUCell(width, width)

    def forward(self, ids, mask):
        x, steps = self.embedding(ids), range(ids.shape[1])
        h, rightward, leftward = torch.zeros(len(ids), self.width), [], []
        for t in steps:
            h = torch.where(mask[:, t, None].bool(), self.right(x[:, t], h), h)
            rightward.append(h)
        h = torch.zeros_like(h)
        for t in reversed(steps):
            h = self.left(x[:, t], h)
            leftward.insert(0, h)
        return torch.cat([torch.stack(rightward, dim=1), torch.stack(leftward, dim=1)], dim=-1)


class CoverageInPlace(nn.Module):
    """A decoder that sums its weights, its coverage. Fault: a step adds to the coverage of the state it received."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(vocab_size, width), nn.GRUCell(width, width)
        self.cover, self.out = nn.Linear(1, 1), nn.Linear(2 * width, vocab_size)

    def start(self, source, source_mask):
        memory = self.embedding(source)
        hidden = (memory * source_mask[..., None]).sum(dim=1)
        return {"memory": memory, "mask": source_mask, "hidden": hidden, "coverage": torch.zeros(source.shape)}

    def step(self, tokens, state):
        hidden = self.cell(self.embedding(tokens), state["hidden"])
        scores = torch.einsum("bd,bsd->bs", hidden, state["memory"])
        scores = scores - self.cover(state["coverage"][..., None]).squeeze(-1)
        weights = scores.masked_fill(state["mask"] == 0, -1e9).softmax(dim=-1)
        state["coverage"] += weights
        context = torch.einsum("bs,bsd->bd", weights, state["memory"])
        return self.out(torch.cat([hidden, context], dim=-1)), {**state, "hidden": hidden}


class BeamsKeepTheirFeed(nn.Module):
    """A decoder with input feeding. Fault: reorder forgets the context that is fed to the next step."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(vocab_size, width), nn.GRUCell(2 * width, width)
        self.out = nn.Linear(2 * width, vocab_size)

    def start(self, source, source_mask):
        memory = self.embedding(source)
        mean = (memory * source_mask[..., None]).sum(dim=1) / source_mask.sum(dim=1, keepdim=True)
        return {"memory": memory, "mask": source_mask, "hidden": mean, "feed": torch.zeros_like(mean)}

    def step(self, tokens, state):
        hidden = self.cell(torch.cat([self.embedding(tokens), state["feed"]], dim=-1), state["hidden"])
        scores = torch.einsum("bd,bsd->bs", hidden, state["memory"]).masked_fill(state["mask"] == 0, -1e9)
        feed = torch.einsum("bs,bsd->bd", scores.softmax(dim=-1), state["memory"])
        return self.out(torch.cat([hidden, feed], dim=-1)), {**state, "hidden": hidden, "feed": feed}

    def reorder(self, state, rows):
        return {**state, **{name: state[name][rows] for name in ("memory", "mask", "hidden")}}


class TeacherOneAhead(nn.Module):
    """An encoder-decoder. Fault: teacher forcing feeds the token that the step is to predict."""

    def __init__(self, vocab_size=11, width=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.cell, self.out = nn.GRUCell(width, width), nn.Linear(2 * width, vocab_size)

    def forward(self, source, source_mask, target):
        memory = self.embedding(source)
        hidden = (memory * source_mask[..., None]).sum(dim=1)
        logits, last = [], target.shape[1] - 1
        for t in range(target.shape[1]):
            hidden = self.cell(self.embedding(target[:, min(t + 1, last)]), hidden)
            scores = torch.einsum("bd,bsd->bs", hidden, memory).masked_fill(source_mask == 0, -1e9)
            context = torch.einsum("bs,bsd->bd", scores.softmax(dim=-1), memory)
            logits.append(self.out(torch.cat([hidden, context], dim=-1)))
        return torch.stack(logits, dim=1)


class DividedByTheLongest(nn.Module):
    """Cross-entropy of real tokens. Fault: the sum is divided by all positions, those of padding too."""

    def forward(self, logits, labels, mask):
        total = 0.0
        for t in range(labels.shape[1]):
            safe = labels[:, t].clamp(min=0)
            total = total + (functional.cross_entropy(logits[:, t], safe, reduction="none") * mask[:, t]).sum()
        return total / labels.numel()
