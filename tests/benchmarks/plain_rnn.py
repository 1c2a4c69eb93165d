"""Luong's attentional RNN in plain torch, as in a tutorial, for comparison with attnzoo's speed."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.benchmarks.systems.attnzoo import BOS, PAD
from tests.benchmarks.workload import DECODER, VOCABULARY

Batch = dict[str, Tensor]


class PlainRNN(nn.Module):
    """Luong et al. (2015, section 3), the general or the additive score, with or without input feeding.

    The embeddings, and each direction of the encoder, have half the decoder's ``width``, as in ``workload.py``.
    """

    def __init__(self, score: str, has_input_feeding: bool, width: int = DECODER) -> None:
        super().__init__()
        self.has_input_feeding, self.width, half = has_input_feeding, width, width // 2
        self.source_embedding = nn.Embedding(VOCABULARY, half)
        self.target_embedding = nn.Embedding(VOCABULARY, half)
        self.encoder = nn.LSTM(half, half, batch_first=True, bidirectional=True)
        self.cell: nn.Module = nn.LSTMCell(half + (width if has_input_feeding else 0), width)
        self.w_a = nn.Linear(width, width, bias=False)
        self.is_additive = score == "additive"
        if self.is_additive:
            self.w_q, self.v = nn.Linear(width, width, bias=False), nn.Parameter(torch.zeros(width))
        self.w_c = nn.Linear(2 * width, width, bias=False)
        self.output = nn.Linear(width, VOCABULARY, bias=False)

    def load_zoo_weights(self, model: nn.Module) -> None:
        """The weights of attnzoo's model under the names of this one."""
        weights = dict(model.named_parameters())
        decoder, layers = "model.decoder.wiring", "model.encoder.rnn.layers.0"
        names = {
            "source_embedding.weight": "model.encoder.embed_tokens.weight",
            "target_embedding.weight": "model.decoder.embed_tokens.weight",
            "w_a.weight": f"{decoder}.attention.score.key_proj.weight",
            "w_c.weight": f"{decoder}.output_proj.weight",
            "output.weight": "lm_head.weight",
        }
        if self.is_additive:
            names |= {"w_q.weight": f"{decoder}.attention.score.query_proj.weight"}
            names |= {"v": f"{decoder}.attention.score.score_vector"}
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            names[f"encoder.{name}_l0"] = f"{layers}.forward_rnn.{name}_l0"
            names[f"encoder.{name}_l0_reverse"] = f"{layers}.backward_rnn.{name}_l0"
            names[f"cell.{name}{'_l0' * isinstance(self.cell, nn.LSTM)}"] = f"{decoder}.rnn.layers.0.{name}_l0"
        self.load_state_dict({own: weights[name].detach() for own, name in names.items()})

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """The encoder's outputs, their keys, and the decoder's first state."""
        lengths = attention_mask.sum(1).cpu()
        packed = pack_padded_sequence(self.source_embedding(input_ids), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.encoder(packed)
        values, _ = pad_packed_sequence(outputs, batch_first=True)
        hidden, cell = (torch.cat([part[0], part[1]], dim=1) for part in state)
        return values, self.w_a(values), (hidden, cell)

    def step(
        self, tokens: Tensor, feed: Tensor, state: tuple[Tensor, Tensor], values: Tensor, keys: Tensor, mask: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The attentional vector and the state after these tokens."""
        embedded = self.target_embedding(tokens)
        hidden, cell = self.cell(torch.cat([embedded, feed], dim=1) if self.has_input_feeding else embedded, state)
        if self.is_additive:
            scores = torch.tanh(self.w_q(hidden).unsqueeze(1) + keys) @ self.v
        else:
            scores = torch.bmm(keys, hidden.unsqueeze(2)).squeeze(2)
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(dim=1)
        context = torch.bmm(weights.unsqueeze(1), values).squeeze(1)
        return torch.tanh(self.w_c(torch.cat([context, hidden], dim=1))), (hidden, cell)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
        """The loss, a mean over the labels."""
        values, keys, state = self.encode(input_ids, attention_mask)
        start = labels.new_full((len(labels), 1), BOS)
        targets = torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, PAD)], dim=1)
        logits = self.output(self.read_out(targets, state, values, keys, attention_mask))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def read_out(
        self, targets: Tensor, state: tuple[Tensor, Tensor], values: Tensor, keys: Tensor, mask: Tensor
    ) -> Tensor:
        """The attentional vectors of all steps."""
        feed, readouts = values.new_zeros(len(targets), self.width), []
        for tokens in targets.unbind(1):
            feed, state = self.step(tokens, feed, state, values, keys, mask)
            readouts.append(feed)
        return torch.stack(readouts, dim=1)

    @torch.no_grad()
    def greedy(self, input_ids: Tensor, attention_mask: Tensor, steps: int, forbidden: int) -> list[list[int]]:
        """The start token and the most probable token of every step; ``forbidden`` is the end token."""
        values, keys, state = self.encode(input_ids, attention_mask)
        tokens, feed = [input_ids.new_full((len(input_ids),), BOS)], values.new_zeros(len(input_ids), self.width)
        for _ in range(steps):
            feed, state = self.step(tokens[-1], feed, state, values, keys, attention_mask)
            logits = self.output(feed)
            logits[:, forbidden] = float("-inf")
            tokens.append(logits.argmax(dim=1))
        return torch.stack(tokens, dim=1).tolist()


class PlainLayer(PlainRNN):
    """The general score without input feeding. The decoder is one call of ``nn.LSTM``, on a GPU that of cuDNN."""

    def __init__(self, width: int = DECODER) -> None:
        super().__init__("general", has_input_feeding=False, width=width)
        self.cell = nn.LSTM(width // 2, width, batch_first=True)

    def read_out(
        self, targets: Tensor, state: tuple[Tensor, Tensor], values: Tensor, keys: Tensor, mask: Tensor
    ) -> Tensor:
        before = tuple(part.unsqueeze(0).contiguous() for part in state)
        hidden, _ = self.cell(self.target_embedding(targets), before)
        scores = torch.bmm(hidden, keys.mT).masked_fill((mask == 0).unsqueeze(1), float("-inf"))
        context = torch.bmm(scores.softmax(dim=2), values)
        # Under autocast to bfloat16 cuDNN computes in float16.
        return torch.tanh(self.w_c(torch.cat([context, hidden.to(context.dtype)], dim=2)))
