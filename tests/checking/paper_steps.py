"""One step of Bahdanau's and Luong's decoders as courses write it, in three styles, right and with a named fault.

``RIGHT`` and ``FAULTY`` have, by name, the class with its variant and the arguments of check; ``FAULTY`` also the first
quantity that is wrong, and words of the cause that must be told.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)


class TutorialBahdanau(nn.Module):
    """Linear layers with their biases and nn.GRU; a readout that is simpler than the paper's."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.embedding = nn.Embedding(19, 6)
        self.wa, self.ua, self.va = nn.Linear(8, 7), nn.Linear(10, 7), nn.Linear(7, 1)
        self.gru = nn.GRU(6 if variant == "context forgotten" else 16, 8, batch_first=True)
        self.out = nn.Linear(8 + 10 + 6, 19)

    def forward(self, token: Tensor, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor) -> Any:
        embedded, query = self.embedding(token), hidden.transpose(0, 1)  # (B, 1, E), (B, 1, H)
        term = self.wa(query) + self.ua(encoder_outputs)
        if self.variant == "no tanh":
            scores = self.va(term)
        elif self.variant == "tanh of each":
            scores = self.va(self.wa(query).tanh() + self.ua(encoder_outputs).tanh())
        else:
            scores = self.va(torch.tanh(term))
        scores = scores.squeeze(-1)
        if self.variant == "mask after":
            weights = scores.softmax(-1) * mask
        elif self.variant == "no mask":
            weights = scores.softmax(-1)
        elif self.variant == "over the batch":
            weights = scores.masked_fill(mask == 0, -1e9).softmax(0)
        else:
            weights = scores.masked_fill(mask == 0, -1e9).softmax(-1)
        values = self.ua(encoder_outputs) if self.variant == "projected values" else encoder_outputs
        if self.variant == "projected values":
            values = F.pad(values, (0, 3))
        context = weights.unsqueeze(1) @ values
        read = [embedded] if self.variant == "context forgotten" else [embedded, context]
        output, state = self.gru(torch.cat(read, dim=-1), hidden)
        if self.variant == "old state":
            state = hidden
        if self.variant == "state changed":
            state = output = 2 * state
            output = output.transpose(0, 1)
        logits = self.out(torch.cat([output, context, embedded], dim=-1).squeeze(1))
        return logits, state, weights


class MatrixBahdanau(nn.Module):
    """From scratch with matrices (inputs, outputs): the paper's own cell and readout."""

    W_z: Tensor
    W_r: Tensor
    W_h: Tensor
    U_z: Tensor
    U_r: Tensor
    U_h: Tensor
    b_z: Tensor
    b_r: Tensor
    b_h: Tensor

    def __init__(self, variant: str = "", embedding: int = 5, hidden: int = 6, keys: int = 9) -> None:
        super().__init__()
        self.variant, self.hidden = variant, hidden
        draw = torch.Generator().manual_seed(0)

        def matrix(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(rows, columns, generator=draw) / rows)

        self.W_a, self.U_a, self.v = matrix(hidden, 7), matrix(keys, 7), matrix(7, 1)
        for gate in ("z", "r", "h"):
            setattr(self, f"W_{gate}", matrix(embedding + keys, hidden))
            setattr(self, f"U_{gate}", matrix(hidden, hidden))
            setattr(self, f"b_{gate}", nn.Parameter(torch.zeros(hidden)))
        self.W_t = matrix(hidden + embedding + keys, 8)
        self.W_o = matrix(4 if variant not in ("no maxout", "tanh") else 8, 20)

    def forward(self, y: Tensor, s: Tensor, h: Tensor) -> Any:
        scores = (torch.tanh((s @ self.W_a)[:, None] + h @ self.U_a) @ self.v)[..., 0]
        if self.variant == "sigmoid":
            alpha = torch.sigmoid(scores)
        elif self.variant == "no softmax":
            alpha = scores
        else:
            exp = torch.exp(scores - scores.max(dim=1, keepdim=True).values)
            alpha = exp / exp.sum(dim=1, keepdim=True)
        c = h.mean(dim=1) if self.variant == "mean" else torch.einsum("bs,bsv->bv", alpha, h)
        x = torch.cat([y, c], dim=1)
        z = torch.sigmoid(x @ self.W_z + s @ self.U_z + self.b_z)
        r = torch.sigmoid(x @ self.W_r + s @ self.U_r + self.b_r)
        if self.variant == "reset after":
            candidate = torch.tanh(x @ self.W_h + r * (s @ self.U_h) + self.b_h)
        elif self.variant == "no reset":
            candidate = torch.tanh(x @ self.W_h + s @ self.U_h + self.b_h)
        else:
            candidate = torch.tanh(x @ self.W_h + (r * s) @ self.U_h + self.b_h)
        new = z * s + (1 - z) * candidate if self.variant == "other way round" else (1 - z) * s + z * candidate
        if self.variant == "candidate alone":
            new = candidate
        read = new if self.variant == "equation 4" else s
        t = torch.cat([read, y, c], dim=1) @ self.W_t
        if self.variant == "halves":
            t = torch.maximum(t[:, :4], t[:, 4:])
        elif self.variant == "tanh":
            t = torch.tanh(t)
        elif self.variant != "no maxout":
            t = t.view(len(t), -1, 2).max(dim=-1).values
        return new, c, alpha, t, t @ self.W_o


class ConcatenatedBahdanau(nn.Module):
    """One matrix on a concatenation, time first, and a fused cell of its own."""

    def __init__(self, variant: str = "", width: int = 6) -> None:
        super().__init__()
        self.variant, self.width = variant, width
        self.embedding = nn.Embedding(11, 5)
        self.attn, self.v = nn.Linear(width + 8, 7), nn.Linear(7, 1, bias=False)
        self.rnn = nn.GRUCell(8 + 5, width)

    def forward(self, input: Tensor, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor) -> Any:
        embedded = self.embedding(input)
        repeated = hidden.unsqueeze(1).repeat(1, encoder_outputs.shape[0], 1)
        keys = encoder_outputs.permute(1, 0, 2)
        if self.variant == "view in place of transpose":
            keys = encoder_outputs.reshape(encoder_outputs.shape[1], encoder_outputs.shape[0], -1)
            attended = encoder_outputs.permute(1, 0, 2)
        else:
            attended = keys
        energy = torch.tanh(self.attn(torch.cat((repeated, attended), dim=2)))
        a = F.softmax(self.v(energy).squeeze(2).masked_fill(mask == 0, float("-inf")), dim=1)
        weighted = torch.bmm(a.unsqueeze(1), keys).squeeze(1)
        hidden = self.rnn(torch.cat((weighted, embedded), dim=1), hidden)
        return hidden, a


class Luong(nn.Module):
    """LSTM with input feeding and the general score."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.embedding = nn.Embedding(13, 5)
        self.lstm = nn.LSTMCell(5 + 7 * (variant != "no feed"), 6)
        self.general = nn.Linear(8, 6, bias=False)
        self.concat = nn.Linear(6 + 8, 7, bias=variant == "bias")
        self.predict = nn.Linear(7, 13)

    def forward(self, token: Tensor, feed: Tensor, state: Any, memory: Tensor, mask: Tensor) -> Any:
        embedded = self.embedding(token)
        read = [embedded] if self.variant == "no feed" else [embedded, feed]
        h, c = self.lstm(torch.cat(read, dim=1), state)
        query = state[0] if self.variant == "previous state" else h
        scores = torch.bmm(self.general(memory), query.unsqueeze(2)).squeeze(2)
        if self.variant == "scaled":
            scores = scores / query.shape[1] ** 0.5
        weights = F.softmax(scores.masked_fill(~mask.bool(), -1e4), dim=1)
        context = (weights.unsqueeze(2) * memory).sum(dim=2 if self.variant == "over the width" else 1)
        if self.variant == "over the width":
            context = context.mean(1, keepdim=True).expand(-1, 8)
        vector = self.concat(torch.cat([h, context], dim=1))
        if self.variant == "relu":
            vector = torch.relu(vector)
        elif self.variant != "no tanh":
            vector = torch.tanh(vector)
        logits = self.predict(vector)
        logits = F.softmax(logits, dim=-1) if self.variant == "probabilities" else F.log_softmax(logits, dim=-1)
        return logits, vector, (h, c), weights


class LoopedDot(nn.Module):
    """Luong's dot score in a loop over the source, as a function without weights."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant

    def forward(self, query: Tensor, keys: Tensor) -> Any:
        rows = []
        for q, k in zip(query, keys, strict=True):
            scores = torch.stack([torch.dot(q, each) for each in k])
            weights = torch.softmax(scores, dim=0)
            rows.append(sum(weight * each for weight, each in zip(weights, k, strict=True)))
        return torch.stack(rows)


class Concat(nn.Module):
    """Luong's concat score alone; it returns the weights and not the context."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.W = nn.Linear(6 + 9, 5, bias=False)
        self.v = nn.Parameter(torch.rand(5))

    def forward(self, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor) -> Tensor:
        length = encoder_outputs.shape[1]
        both = torch.cat([hidden[:, None].expand(-1, length, -1), encoder_outputs], dim=2)
        energy = self.W(both) if self.variant == "no tanh" else torch.tanh(self.W(both))
        scores = energy @ self.v
        is_hidden = mask if self.variant == "True is hidden" else mask == 0
        hidden_scores = scores.masked_fill(is_hidden, float("-inf"))
        if self.variant == "one minus the mask":
            hidden_scores = scores - (1 - mask) * 1e9
        return scores.softmax(1) if self.variant == "before the mask" else hidden_scores.softmax(1)


class Step(NamedTuple):
    make: Callable[[str], Any]
    variant: str
    options: dict[str, Any]
    quantity: str = ""  # that is wrong
    cause: str = ""


BAHDANAU: dict[str, Any] = {"paper": "bahdanau2014"}
STATE = BAHDANAU | {"call": "token, state, keys, mask -> _, state, alignment"}
MATRICES = BAHDANAU | {"call": "embedding, state, keys -> state, context, alignment, readout, logits"}
MATRICES |= {"width": (5, 6, 9)}
GENERAL = {
    "paper": "luong2015-global-general",
    "call": "token, feed, (state, cell), keys, mask -> logits, readout, (state, cell), alignment",
}
CONCAT = {"paper": "luong2015-global-concat"}
RIGHT = [
    Step(TutorialBahdanau, "", BAHDANAU),
    Step(TutorialBahdanau, "", STATE),
    Step(MatrixBahdanau, "", MATRICES),
    Step(MatrixBahdanau, "other way round", MATRICES),
    Step(MatrixBahdanau, "reset after", MATRICES),
    Step(MatrixBahdanau, "equation 4", MATRICES),
    Step(MatrixBahdanau, "halves", MATRICES),
    Step(ConcatenatedBahdanau, "", BAHDANAU),
    Step(Luong, "", GENERAL),
    Step(Luong, "bias", GENERAL),
    Step(LoopedDot, "", {"paper": "luong2015-global-dot"}),
    Step(Concat, "", CONCAT),
    Step(Concat, "True is hidden", CONCAT),
    Step(Concat, "one minus the mask", CONCAT),
]
FAULTY = [
    Step(TutorialBahdanau, "no tanh", BAHDANAU, "scores", "no tanh"),
    Step(TutorialBahdanau, "tanh of each", BAHDANAU, "scores", "tanh of each term"),
    Step(TutorialBahdanau, "mask after", BAHDANAU, "alignment", "mask is applied after"),
    Step(TutorialBahdanau, "no mask", BAHDANAU, "alignment", "padding is not hidden"),
    Step(TutorialBahdanau, "over the batch", BAHDANAU, "alignment", "over the batch"),
    Step(TutorialBahdanau, "projected values", BAHDANAU, "context"),
    Step(TutorialBahdanau, "context forgotten", BAHDANAU, "state", "does not read the context"),
    Step(TutorialBahdanau, "old state", BAHDANAU, "state", "the previous state"),
    Step(TutorialBahdanau, "state changed", STATE, "state", "although the right numbers are computed"),
    Step(MatrixBahdanau, "sigmoid", MATRICES, "alignment", "sigmoid in place"),
    Step(MatrixBahdanau, "no softmax", MATRICES, "alignment", "no softmax"),
    Step(MatrixBahdanau, "mean", MATRICES, "context", "averaged"),
    Step(MatrixBahdanau, "no reset", MATRICES, "state", "reset gate has no effect"),
    Step(MatrixBahdanau, "candidate alone", MATRICES, "state"),
    Step(MatrixBahdanau, "no maxout", MATRICES, "readout", "linear"),
    Step(MatrixBahdanau, "tanh", MATRICES, "readout", "tanh in place of the maxout"),
    Step(ConcatenatedBahdanau, "view in place of transpose", BAHDANAU, "context", "view in place of a transpose"),
    Step(Luong, "no feed", GENERAL, "state", "does not read the feed"),
    Step(Luong, "previous state", GENERAL, "scores", "previous state"),
    Step(Luong, "scaled", GENERAL, "alignment", "root of the width"),
    Step(Luong, "over the width", GENERAL, "context"),
    Step(Luong, "no tanh", GENERAL, "readout", "no tanh"),
    Step(Luong, "relu", GENERAL, "readout", "relu"),
    Step(Luong, "probabilities", GENERAL, "logits", "the logits are probabilities"),
    Step(Concat, "True is hidden", CONCAT | {"mask": "attend"}, "alignment", "not finite"),
    Step(Concat, "no tanh", CONCAT, "scores", "no tanh"),
    Step(Concat, "before the mask", CONCAT, "alignment", "padding is not hidden"),
]
