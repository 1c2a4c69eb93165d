"""Attention with matrices, einsum and baddbmm: thirteen right modules, then twelve faulty ones."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


class EinsumHeads(nn.Module):
    """Multi-head attention with einsum; the mask is True where a key is hidden, and a row without keys gives zeros."""

    def __init__(self, embed_size=8, heads=2):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.queries, self.keys, self.values = (nn.Linear(embed_size, embed_size, bias=False) for _ in range(3))
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, query, key, value, mask=None):
        n, length = query.shape[:2]
        q = self.queries(query).reshape(n, -1, self.heads, self.head_dim)
        k = self.keys(key).reshape(n, -1, self.heads, self.head_dim)
        v = self.values(value).reshape(n, -1, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k)
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 2 else mask
            energy = energy.masked_fill(mask.bool()[:, None], -torch.inf)
        attention = torch.softmax(energy / self.head_dim**0.5, dim=3).nan_to_num(0.0)
        out = torch.einsum("nhql,nlhd->nqhd", attention, v).reshape(n, length, self.embed_size)
        return self.fc_out(out)


class BaddbmmAttention(nn.Module):
    """Scaled dot-product attention of one head; baddbmm adds a mask of 0 and -inf to the scaled scores."""

    def forward(self, query, key, value, mask):
        bias = mask[:, None, :].expand(-1, query.shape[1], -1).to(query.dtype)
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=query.shape[-1] ** -0.5)
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights, value), weights


class SoftmaxInFloat32(nn.Module):
    """Multi-head self-attention as in Llama: the softmax in float32, and finfo.min; weights averaged over the heads."""

    def __init__(self, hidden_size=8, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.o_proj = nn.Linear(hidden_size, 3 * hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask):
        batch, length, width = hidden_states.shape
        q, k, v = self.qkv(hidden_states).view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.num_heads)
        inverted = 1.0 - attention_mask[:, None, None, :].to(scores.dtype)
        scores = scores + inverted * torch.finfo(scores.dtype).min
        weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        output = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.o_proj(output), weights.mean(dim=1)


class GroupedQueryAttention(nn.Module):
    """Causal self-attention in which two heads of queries share a head of keys and values."""

    is_causal = True

    def __init__(self, width=16, num_heads=4, num_kv_heads=2):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, width // num_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, num_kv_heads * self.head_dim, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, mask):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k, v = (p(x).view(b, t, self.num_kv_heads, self.head_dim).transpose(1, 2) for p in (self.k_proj, self.v_proj))
        k, v = (part.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1) for part in (k, v))
        visible = torch.ones(t, t, dtype=torch.bool).tril() & mask.bool()[:, None, None, :]
        scores = (q @ k.mT * self.head_dim**-0.5).masked_fill(~visible, -1e9)
        return self.o_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


class RotaryAttention(nn.Module):
    """Causal self-attention whose queries and keys are rotated by their position; weights per head."""

    def __init__(self, width=8, num_heads=2):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, width // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def rotate(self, x):
        half = self.head_dim // 2
        angles = torch.outer(torch.arange(x.shape[2]), 10000.0 ** (-torch.arange(half) / half))
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def forward(self, x, mask):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = self.rotate(q) @ self.rotate(k).transpose(-2, -1) / math.sqrt(self.head_dim)
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool() | (mask == 0)[:, None, None, :]
        weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim=-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2)), weights


class AlibiModel(nn.Module):
    """A language model of one causal layer without positions; ALiBi's slopes bias the scores."""

    def __init__(self, vocab_size=11, d_model=8, n_heads=2):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.embed, self.qkv = nn.Embedding(vocab_size, d_model), nn.Linear(d_model, 3 * d_model)
        self.norm, self.lm_head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads))

    def forward(self, ids, mask):
        x, positions = self.embed(ids), torch.arange(ids.shape[1])
        q, k, v = (part.unflatten(-1, (self.n_heads, -1)) for part in self.qkv(x).chunk(3, dim=-1))
        distance = positions[:, None] - positions
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.d_model // self.n_heads)
        scores = scores - self.slopes[:, None, None] * distance
        scores = scores.masked_fill((distance < 0) | ~mask.bool()[:, None, None, :], -1e9)
        mixed = torch.einsum("bhij,bjhd->bihd", scores.softmax(dim=-1), v).flatten(2)
        return self.lm_head(self.norm(x + mixed))


class WideValues(nn.Module):
    """Cross-attention with keyword-only arguments and values wider than keys; it returns a dict."""

    def __init__(self, width=6, key_width=4, value_width=10):
        super().__init__()
        self.to_query, self.to_key = nn.Linear(width, key_width), nn.Linear(width, key_width)
        self.to_value = nn.Linear(width, value_width)

    def forward(self, *, query, key, value, mask):
        q, k, v = self.to_query(query), self.to_key(key), self.to_value(value)
        scores = torch.einsum("bqd,bkd->bqk", q, k) * k.shape[-1] ** -0.5
        weights = scores.masked_fill(~mask.bool()[:, None], -torch.inf).softmax(dim=-1)
        return {"output": weights @ v, "weights": weights}


class PostNormBlock(nn.Module):
    """A block of Vaswani's encoder: each sum of input and sublayer is normalised."""

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.attention = EinsumHeads(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, 16), nn.ReLU(), nn.Linear(16, d_model))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attention(x, x, x, mask == 0)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


@dataclass
class Attended:
    """What ``AdditiveWithRenormalising`` returns."""

    context: Tensor
    weights: Tensor


class AdditiveWithRenormalising(nn.Module):
    """Additive attention of all queries at once; the mask multiplies the weights, and their sum is then set to one."""

    def __init__(self, query_width=6, key_width=8, hidden=5):
        super().__init__()
        self.query_layer, self.key_layer = nn.Linear(query_width, hidden), nn.Linear(key_width, hidden)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def forward(self, query, keys, mask):
        features = torch.tanh(self.query_layer(query).unsqueeze(2) + self.key_layer(keys).unsqueeze(1))
        weights = self.energy(features).squeeze(-1).softmax(dim=-1) * mask.unsqueeze(1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return Attended(torch.bmm(weights, keys), weights)


class TinyGpt(nn.Module):
    """A decoder-only model with pre-norm, learned positions and tied embeddings."""

    def __init__(self, vocab_size=11, n_embd=8, n_head=2, block_size=32):
        super().__init__()
        self.n_head, self.n_embd = n_head, n_embd
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.ln_1, self.ln_2, self.ln_f = (nn.LayerNorm(n_embd) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(n_embd, 16), nn.GELU(), nn.Linear(16, n_embd))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def attend(self, x, mask):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.n_head, -1).transpose(1, 2) for part in self.c_attn(x).split(c, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        visible = torch.tril(torch.ones(t, t)).bool() & mask.bool()[:, None, None, :]
        weights = torch.where(visible, scores, -1e4).softmax(dim=-1)
        return self.c_proj((weights @ v).transpose(1, 2).contiguous().view(b, t, c))

    def forward(self, ids, mask):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        x = x + self.attend(self.ln_1(x), mask)
        return self.lm_head(self.ln_f(x + self.mlp(self.ln_2(x))))


class SmallTransformer(nn.Module):
    """An encoder-decoder of one post-norm layer each, with sinusoids and scaled embeddings."""

    def __init__(self, vocab_size=11, d_model=8, num_heads=2):
        super().__init__()
        self.d_model, self.src, self.tgt = d_model, nn.Embedding(vocab_size, d_model), nn.Embedding(vocab_size, d_model)
        self.mine, self.own, self.cross = (EinsumHeads(d_model, num_heads) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.generator = nn.Linear(d_model, vocab_size)
        angles = torch.arange(64)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def forward(self, source, source_mask, target):
        hidden = source_mask == 0
        x = self.src(source) * math.sqrt(self.d_model) + self.pe[: source.shape[1]]
        memory = self.norms[0](x + self.mine(x, x, x, hidden))
        y = self.tgt(target) * math.sqrt(self.d_model) + self.pe[: target.shape[1]]
        later = torch.ones(1, target.shape[1], target.shape[1]).triu(1)
        y = self.norms[1](y + self.own(y, y, y, later))
        return self.generator(self.norms[2](y + self.cross(y, memory, memory, hidden)))


class SmoothedLoss(nn.Module):
    """Label smoothing with log_softmax and gather; the mean is over labels other than padding, 0."""

    def __init__(self, smoothing=0.1, pad=0):
        super().__init__()
        self.smoothing, self.pad = smoothing, pad

    def forward(self, logits, labels):
        logp = functional.log_softmax(logits, dim=-1)
        nll = -logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        loss = (1 - self.smoothing) * nll - self.smoothing * logp.mean(dim=-1)
        real = labels != self.pad
        return loss[real].sum() / real.sum()


class TargetMask(nn.Module):
    """The mask of a decoder's input: no padding, and no later position."""

    def forward(self, ids):
        size = ids.shape[1]
        no_peak = torch.ones(1, size, size).triu(diagonal=1) == 0
        return (ids != 0).unsqueeze(-2) & no_peak


class SoftmaxOverQueries(nn.Module):
    """Multi-head self-attention. Fault: the softmax is over the queries, dim=-2."""

    def __init__(self, width=8, num_heads=2):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, width // num_heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        q, k, v = (p.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        weights = scores.masked_fill(mask[:, None, None, :] == 0, -1e9).softmax(dim=-2)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class ScaledByTheWidth(nn.Module):
    """Multi-head self-attention. Fault: the scale is of the whole width, not of a head's."""

    def __init__(self, d_model=16, num_heads=4):
        super().__init__()
        self.num_heads, self.d_model = num_heads, d_model
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_model**0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        return self.w_o(torch.matmul(scores.softmax(dim=-1), v).transpose(1, 2).flatten(2))


class HeadsJoinedByAView(nn.Module):
    """Multi-head self-attention. Fault: the heads are joined by a view without the transpose back."""

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.h, self.d_k = num_heads, d_model // num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.h, self.d_k).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.d_k)
        weights = scores.masked_fill(mask[:, None, None] == 0, -torch.inf).softmax(dim=-1)
        return self.w_o((weights @ v).contiguous().view(b, t, d))


class MaskOfTheQueries(nn.Module):
    """Self-attention. Fault: the mask is broadcast over the keys, so it hides queries."""

    def __init__(self, width=6):
        super().__init__()
        self.width, self.qkv = width, nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.width)
        weights = functional.softmax(scores.masked_fill(mask[:, :, None] == 0, -1e9), dim=-1)
        return torch.bmm(weights, v), weights


class TinyPenalty(nn.Module):
    """Cross-attention. Fault: the scores of padding are set to -1e-9, which is almost zero, instead of -1e9."""

    def __init__(self, width=6):
        super().__init__()
        self.width = width
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, query, key, value, mask):
        scores = self.query(query) @ self.key(key).mT / math.sqrt(self.width)
        weights = scores.masked_fill(mask[:, None] == 0, -1e-9).softmax(dim=-1)
        return weights @ self.value(value), weights


class NanFromPadding(nn.Module):
    """A language model. Fault: queries of padding see nothing, and the NaN of layer one reaches all of layer two."""

    def __init__(self, vocab_size=11, width=8, layers=2):
        super().__init__()
        self.width, self.embed, self.position = width, nn.Embedding(vocab_size, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.Linear(width, vocab_size)

    def forward(self, ids, mask):
        x, real = self.embed(ids) + self.position(torch.arange(ids.shape[1])), mask.bool()
        visible = torch.ones(ids.shape[1], ids.shape[1]).tril().bool() & real[:, None, :] & real[:, :, None]
        for layer in self.layers:
            q, k, v = layer(x).chunk(3, dim=-1)
            scores = (q @ k.mT / math.sqrt(self.width)).masked_fill(~visible, -torch.inf)
            x = x + scores.softmax(dim=-1) @ v
        return self.out(x)


class NormalisedOverTheBatch(nn.Module):
    """A block of self-attention. Fault: it is normalised with the mean and deviation of all rows and positions."""

    def __init__(self, width=6):
        super().__init__()
        self.width, self.qkv, self.out = width, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = torch.baddbmm(torch.zeros(1), q, k.mT, alpha=self.width**-0.5)
        weights = scores.masked_fill(~mask.bool()[:, None], -1e9).softmax(dim=-1)
        x = x + self.out(weights @ v)
        return (x - x.mean(dim=(0, 1))) / (x.std(dim=(0, 1)) + 1e-5)


class NormalisedOverTime(nn.Module):
    """A block of self-attention. Fault: it is normalised over positions and features, with those of padding."""

    def __init__(self, width=6):
        super().__init__()
        self.width, self.qkv, self.out = width, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        q, k, v = self.qkv(functional.layer_norm(x, x.shape[1:])).chunk(3, dim=-1)
        scores = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(self.width)
        weights = scores.masked_fill(~mask.bool()[:, None], -1e9).softmax(dim=-1)
        return x + self.out(torch.einsum("bij,bjd->bid", weights, v))


class MaskedAfterSoftmax(nn.Module):
    """Luong's general attention. Fault: the mask multiplies the weights, whose sum is then less than one."""

    def __init__(self, query_width=6, key_width=8):
        super().__init__()
        self.general = nn.Linear(key_width, query_width, bias=False)

    def forward(self, query, keys, mask):
        weights = torch.softmax(query @ self.general(keys).transpose(1, 2), dim=-1) * mask[:, None]
        return torch.bmm(weights, keys), weights


class WeightsOfTheQueryAlone(nn.Module):
    """Attention of a known tutorial. Fault: a linear layer of the query gives the weights; no key is looked at."""

    def __init__(self, width=6, max_length=32):
        super().__init__()
        self.attn = nn.Linear(width, max_length)

    def forward(self, query, keys, mask):
        scores = self.attn(query)[:, : keys.shape[1]].masked_fill(mask == 0, -1e9)
        weights = scores.softmax(dim=-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class PositionsOfRows(nn.Module):
    """A causal language model. Fault: the positions are indexed by the row of the batch, not by time."""

    def __init__(self, vocab_size=11, d_model=8):
        super().__init__()
        self.d_model, self.embed, self.qkv = d_model, nn.Embedding(vocab_size, d_model), nn.Linear(d_model, 3 * d_model)
        self.fc = nn.Linear(d_model, vocab_size)
        angles = torch.arange(64)[:, None] * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        self.register_buffer("pe", torch.cat([angles.sin(), angles.cos()], dim=-1).unsqueeze(1))

    def forward(self, ids, mask):
        x = self.embed(ids) * math.sqrt(self.d_model)
        x = x + self.pe[: x.size(0)]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        visible = torch.ones(x.size(1), x.size(1)).tril().bool() & mask.bool()[:, None]
        scores = (q @ k.transpose(1, 2) / math.sqrt(self.d_model)).masked_fill(~visible, -1e9)
        return self.fc(x + scores.softmax(dim=-1) @ v)


class LastTokenHidden(nn.Module):
    """A mask of lengths, True where a key may be seen. Fault: it ends one position early."""

    def forward(self, lengths):
        return torch.arange(int(lengths.max()))[None, :] < lengths[:, None] - 1
