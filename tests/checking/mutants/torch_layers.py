"""Attention on torch's layers and its fused kernel: ten right modules, then eleven faulty ones."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class TimeFirstLayer(nn.Module):
    """torch's layer with time first inside, around inputs with the batch first; weights per head."""

    def __init__(self, embed_dim=8, num_heads=2):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads)

    def forward(self, x, mask):
        x = x.transpose(0, 1)
        output, weights = self.attention(x, x, x, key_padding_mask=mask == 0, average_attn_weights=False)
        return output.transpose(0, 1), weights


class FusedHeads(nn.Module):
    """Multi-head attention on the fused kernel with a boolean mask and dropout in training alone."""

    def __init__(self, d_model=8, num_heads=2, dropout=0.2):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def forward(self, query, key, value, mask):
        q, k, v = self.split(self.q_proj(query)), self.split(self.k_proj(key)), self.split(self.v_proj(value))
        p = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool()[:, None, None, :], dropout_p=p)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class FusedGroups(nn.Module):
    """A causal language model of one block with grouped queries; is_causal and right padding make a mask needless."""

    def __init__(self, vocab_size=11, width=16, num_heads=4, num_kv_heads=2):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, width // num_heads
        self.embed, self.norm, self.head = (
            nn.Embedding(vocab_size, width),
            nn.RMSNorm(width),
            nn.Linear(width, vocab_size),
        )
        self.q, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * num_kv_heads * self.head_dim)

    def forward(self, ids):
        x = self.embed(ids)
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2 * self.num_kv_heads, -1)).transpose(1, 2).chunk(2, dim=1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.head(x + self.o(mixed.transpose(1, 2).flatten(2)))


class PreNormBlock(nn.Module):
    """A causal block with pre-norm; one additive mask joins the triangle and the padding."""

    causal = True

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout=0.1, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 16), nn.GELU(), nn.Linear(16, d_model), nn.Dropout(0.1))

    def forward(self, x, mask):
        bias = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        bias = bias + torch.zeros(mask.shape).masked_fill(mask == 0, -torch.inf)[:, None]
        bias = bias.clamp(min=torch.finfo(bias.dtype).min).repeat_interleave(self.num_heads, dim=0)
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=bias, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class PackedEncoder(nn.Module):
    """A GRU of both directions over packed sequences; the state is bridged from the last of both."""

    def __init__(self, vocab_size=11, hidden_size=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, state = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])
        return outputs, torch.tanh(self.bridge(torch.cat([state[0], state[1]], dim=-1)))


class LstmTranslator(nn.Module):
    """A packed LSTM, a decoder LSTM that starts from its state, and torch's layer as cross-attention."""

    def __init__(self, vocab_size=11, width=8, num_heads=2):
        super().__init__()
        self.source_embedding, self.target_embedding = nn.Embedding(vocab_size, width), nn.Embedding(vocab_size, width)
        self.encoder, self.decoder = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, num_heads, batch_first=True)
        self.out = nn.Linear(2 * width, vocab_size)

    def forward(self, source, source_mask, target):
        lengths, x = source_mask.sum(dim=1).long(), self.source_embedding(source)
        packed, state = self.encoder(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.shape[1])
        hidden, _ = self.decoder(self.target_embedding(target), state)
        context, _ = self.attention(hidden, memory, memory, key_padding_mask=source_mask == 0)
        return self.out(torch.cat([hidden, context], dim=-1))


class TorchTransformer(nn.Module):
    """nn.Transformer with pre-norm, learned positions and one embedding, which is the output, too."""

    def __init__(self, vocab_size=11, d_model=8, nhead=2):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(32, d_model)
        self.transformer = nn.Transformer(d_model, nhead, 1, 1, 16, batch_first=True, norm_first=True)

    def embed(self, ids):
        return self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))

    def forward(self, source, source_mask, target):
        hidden = source_mask == 0
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=later,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
        )
        return functional.linear(states, self.embedding.weight)


class SmoothedCrossEntropy(nn.Module):
    """torch's cross-entropy with label smoothing, over labels other than -100."""

    def __init__(self, smoothing=0.1):
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(label_smoothing=smoothing, ignore_index=-100)

    def forward(self, logits, labels):
        return self.criterion(logits.flatten(0, 1), labels.flatten())


class TwoWidths(nn.Module):
    """torch's layer with queries of one width and keys of another; only the keys are given."""

    def __init__(self, query_width=8, key_width=6, num_heads=2):
        super().__init__()
        self.layer = nn.MultiheadAttention(query_width, num_heads, kdim=key_width, vdim=key_width, batch_first=True)

    def forward(self, query, keys, mask):
        return self.layer(query, keys, keys, key_padding_mask=~mask.bool())


class CachedDecoder(nn.Module):
    """A Transformer's decoder with a cache of keys and values, step by step and whole."""

    def __init__(self, vocab_size=11, width=8):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocab_size, width), nn.Embedding(32, width)
        self.qkv, self.cross_q, self.out = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            nn.Linear(width, vocab_size),
        )

    def start(self, source, source_mask):
        empty = torch.zeros(len(source), 0, self.embed.embedding_dim)
        return {"memory": self.embed(source), "mask": source_mask.bool()[:, None], "keys": empty, "values": empty}

    def layer(self, x, keys, values, memory, mask, is_causal):
        q = self.qkv(x).chunk(3, dim=-1)[0]
        x = x + functional.scaled_dot_product_attention(q, keys, values, is_causal=is_causal)
        return self.out(x + functional.scaled_dot_product_attention(self.cross_q(x), memory, memory, attn_mask=mask))

    def step(self, tokens, state):
        x = (self.embed(tokens) + self.position.weight[state["keys"].shape[1]]).unsqueeze(1)
        _, key, value = self.qkv(x).chunk(3, dim=-1)
        keys, values = torch.cat([state["keys"], key], dim=1), torch.cat([state["values"], value], dim=1)
        logits = self.layer(x, keys, values, state["memory"], state["mask"], is_causal=False)
        return logits[:, 0], {**state, "keys": keys, "values": values}

    def whole(self, source, source_mask, target):
        x = self.embed(target) + self.position(torch.arange(target.shape[1]))
        _, keys, values = self.qkv(x).chunk(3, dim=-1)
        return self.layer(x, keys, values, self.embed(source), source_mask.bool()[:, None], is_causal=True)

    def reorder(self, state, rows):
        return {name: part.index_select(0, rows) for name, part in state.items()}


class MaskNotInverted(nn.Module):
    """torch's layer under a mask of 1 at real tokens. Fault: it is given as key_padding_mask without inverting it."""

    def __init__(self, embed_dim=8, num_heads=2):
        super().__init__()
        self.mha = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x, mask):
        return self.mha(x, x, x, key_padding_mask=mask.bool())


class BatchFirstForgotten(nn.Module):
    """torch's layer on inputs with the batch first. Fault: batch_first is not set, so it attends over the batch."""

    def __init__(self, embed_dim=8, num_heads=2):
        super().__init__()
        self.mha = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x, mask):
        output, _ = self.mha(x, x, x, key_padding_mask=(mask == 0).T)
        return self.norm(x + output)


class ScaledTwice(nn.Module):
    """Multi-head self-attention on the fused kernel. Fault: the queries are scaled before the kernel scales them."""

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask):
        parts = (self.q_proj(x) / math.sqrt(self.head_dim), self.k_proj(x), self.v_proj(x))
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool()[:, None, None])
        return self.out_proj(y.transpose(1, 2).flatten(2))


class DropoutAlwaysOn(nn.Module):
    """Causal self-attention on the fused kernel. Fault: dropout_p is passed in eval mode, too."""

    def __init__(self, n_embd=8, n_head=2, dropout=0.3):
        super().__init__()
        self.n_head, self.dropout = n_head, dropout
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for p in self.c_attn(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class HeadsNotTransposed(nn.Module):
    """Multi-head self-attention. Fault: heads stay on axis 2, so each position attends over its own heads."""

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.num_heads, self.qkv, self.out = num_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)) for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.flatten(2)) * mask[..., None]


class FloatMaskAdded(nn.Module):
    """Cross-attention on the fused kernel. Fault: a float mask of 1 and 0 is added to the scores and hides nothing."""

    def __init__(self, width=6):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, query, key, value, mask):
        q, k, v = self.query(query), self.key(key), self.value(value)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.float().unsqueeze(1))


class MemoryMaskForgotten(nn.Module):
    """nn.Transformer as a translator. Fault: memory_key_padding_mask is missing, so the decoder attends to padding."""

    def __init__(self, vocab_size=11, d_model=8, nhead=2):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(32, d_model)
        self.transformer = nn.Transformer(d_model, nhead, 1, 1, 16, batch_first=True)
        self.out = nn.Linear(d_model, vocab_size)

    def embed(self, ids):
        return self.embedding(ids) + self.positions(torch.arange(ids.shape[1]))

    def forward(self, source, source_mask, target):
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=later, src_key_padding_mask=source_mask == 0
        )
        return self.out(states)


class StateOfUnpackedGru(nn.Module):
    """A GRU over padded sequences. Fault: they are not packed, so the returned state is that after the padding."""

    def __init__(self, vocab_size=11, hidden_size=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size, padding_idx=0)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, ids, lengths):
        return self.gru(self.embedding(ids))


class StepAtPositionZero(CachedDecoder):
    """A decoder with a cache. Fault: each step takes the embedding of position 0."""

    def step(self, tokens, state):
        x = (self.embed(tokens) + self.position(torch.tensor(0))).unsqueeze(1)
        _, key, value = self.qkv(x).chunk(3, dim=-1)
        keys, values = torch.cat([state["keys"], key], dim=1), torch.cat([state["values"], value], dim=1)
        logits = self.layer(x, keys, values, state["memory"], state["mask"], is_causal=False)
        return logits[:, 0], {**state, "keys": keys, "values": values}


class MasksOfHeadsInTheWrongOrder(nn.Module):
    """Causal torch's layer with a mask for each row. Fault: repeat orders it by heads, the layer wants it by rows."""

    def __init__(self, embed_dim=8, num_heads=2):
        super().__init__()
        self.num_heads, self.mha = num_heads, nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x, mask):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        hidden = later | (mask == 0)[:, None]
        return self.mha(x, x, x, attn_mask=hidden.repeat(self.num_heads, 1, 1), need_weights=False)[0]


class ResidualInPlace(nn.Module):
    """A pre-norm block on torch's layer. Fault: the residual is added to the input in place."""

    def __init__(self, d_model=8, num_heads=2):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(d_model), nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, x, mask):
        y = self.norm(x)
        x += self.attn(y, y, y, key_padding_mask=mask == 0, need_weights=False)[0]
        return x
