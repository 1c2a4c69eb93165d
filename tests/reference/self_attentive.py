"""The structured self-attentive sentence embedding as loops: one sentence, one hop, one token at a time.

The executable specification of Lin et al. (2017). Weights are read from a model by their names; everything else is
written from the equations.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.reference import attention
from tests.reference.attentional_rnn import Weights, below, encode_sentence, weights_of


class Sentence(NamedTuple):
    """One sentence without padding: H, a row for every token; A and M, a row for every hop; the penalty."""

    states: list[Tensor]
    annotation_matrix: list[list[Tensor]]
    sentence_matrix: list[Tensor]
    penalty: Tensor


class Classification(NamedTuple):
    """The model's outputs for a batch: logits (B, K), A (B, R, S), penalties (B,), and the M of every sentence."""

    logits: Tensor
    annotation_matrix: Tensor
    penalty: Tensor
    sentence_matrices: list[list[list[Tensor]]]


def annotate(states: list[Tensor], w_s1: Tensor, w_s2: Tensor) -> list[list[Tensor]]:
    """Section 2.1, eq. 6: A = softmax(W_s2 tanh(W_s1 H^T)), one hop (row of W_s2) after the other."""
    return [attention.softmax([attention.dot(hop, torch.tanh(w_s1 @ h)) for h in states]) for hop in w_s2]


def annotate_once(states: list[Tensor], w_s1: Tensor, w_s2: Tensor) -> list[Tensor]:
    """Section 2.1, eq. 5, the vector form: a = softmax(w_s2 tanh(W_s1 H^T)), with a vector w_s2."""
    return attention.softmax([attention.dot(w_s2, torch.tanh(w_s1 @ h)) for h in states])


def embed(annotation_matrix: list[list[Tensor]], states: list[Tensor], size: int) -> list[Tensor]:
    """Section 2.1, eq. 7: M = A H; a sentence without tokens has M = 0."""
    if not states:
        return [torch.zeros(size, dtype=torch.float64) for _ in annotation_matrix]
    return [attention.context(row, states) for row in annotation_matrix]


def penalty(annotation_matrix: list[list[Tensor]]) -> Tensor:
    """Section 2.2, eq. 8: P = ||A A^T - I||_F^2, the sum of the squares of all entries."""
    total = torch.zeros((), dtype=torch.float64)
    for i, hop in enumerate(annotation_matrix):
        for j, other in enumerate(annotation_matrix):
            overlap = sum((a * b for a, b in zip(hop, other, strict=True)), torch.zeros((), dtype=torch.float64))
            total = total + (overlap - (1 if i == j else 0)) ** 2
    return total


def read_sentence(weights: Weights, config: Any, tokens: list[Tensor]) -> Sentence:
    encoder = below(weights, "rnn.")
    shape = (config.cell, config.hidden_size, config.num_hidden_layers)
    states = encode_sentence(encoder, *shape, tokens, ("forward", "backward")).annotations[-1]
    rows = annotate(states, weights["attention.key_proj.weight"], weights["attention.hops"])
    return Sentence(states, rows, embed(rows, states, 2 * config.hidden_size), penalty(rows))


def gate(premise: list[Tensor], hypothesis: list[Tensor], w_fp: Tensor, w_fh: Tensor) -> list[Tensor]:
    """Section 4.3 and appendix B: F_h = batched_dot(M_h, W_fh), F_p = batched_dot(M_p, W_fp), F_r = F_h * F_p.

    Every row of a matrix is multiplied by its own weight matrix.
    """
    relation = []
    for hop in range(len(premise)):
        f_p = [attention.dot(premise[hop], w_fp[hop][:, column]) for column in range(w_fp.shape[2])]
        f_h = [attention.dot(hypothesis[hop], w_fh[hop][:, column]) for column in range(w_fh.shape[2])]
        relation.append(torch.stack([p * h for p, h in zip(f_p, f_h, strict=True)]))
    return relation


def compare(related: list[Tensor], premise: list[Tensor], hypothesis: list[Tensor]) -> list[Tensor]:
    """Tai et al. (2015), section 4.2: after each row of F_r the products and the absolute differences of the values."""
    rows = []
    for row, p, h in zip(related, premise, hypothesis, strict=True):
        products = [x * y for x, y in zip(p, h, strict=True)]
        differences = [x - y if x > y else y - x for x, y in zip(p, h, strict=True)]
        rows.append(torch.cat([row, torch.stack(products), torch.stack(differences)]))
    return rows


def classify(model: nn.Module, input_ids: Tensor, mask: Tensor, token_type_ids: Tensor | None = None) -> Classification:
    """Section 4: the two-layer ReLU MLP on M, or on F_r of a pair, whose first sentence is the premise.

    ``model`` is a ``SelfAttentiveForSequenceClassification``; for a pair the penalties of both sentences are added.
    """
    config, weights = model.config, weights_of(model)
    base = below(weights, "model.")
    rows, length = input_ids.shape
    annotations = torch.zeros(rows, config.num_hops, length, dtype=torch.float64)
    logits, penalties, matrices = [], [], []
    for row in range(rows):
        sentences = []
        for number in range(2 if config.sentence_pair else 1):
            in_it = [
                token_type_ids is None or not config.sentence_pair or token_type_ids[row, j] == number
                for j in range(length)
            ]
            places = [j for j in range(length) if mask[row, j] and in_it[j]]
            sentence = read_sentence(base, config, [base["embed_tokens.weight"][input_ids[row, j]] for j in places])
            for hop, of_hop in enumerate(sentence.annotation_matrix):
                for place, weight in zip(places, of_hop, strict=True):
                    annotations[row, hop, place] = weight
            sentences.append(sentence)
        read = sentences[0].sentence_matrix
        if config.sentence_pair:
            w_fp, w_fh = base["gate.first_weight"], base["gate.second_weight"]
            other = sentences[1].sentence_matrix
            related = gate(read, other, w_fp, w_fh)
            read = compare(related, read, other) if config.compare_hops else related
        hidden = weights["hidden_proj.weight"] @ torch.cat(read) + weights["hidden_proj.bias"]
        hidden = torch.stack([unit if unit > 0 else unit * 0 for unit in hidden])
        logits.append(weights["classifier.weight"] @ hidden + weights["classifier.bias"])
        penalties.append(sum((sentence.penalty for sentence in sentences), torch.zeros((), dtype=torch.float64)))
        matrices.append([sentence.sentence_matrix for sentence in sentences])
    return Classification(torch.stack(logits), annotations, torch.stack(penalties), matrices)


def cross_entropy(logits: Tensor, labels: list[int]) -> Tensor:
    """The mean of -log p(label) over the rows with a label."""
    losses = []
    for row, label in zip(logits, labels, strict=True):
        if label != -100:
            losses.append(-torch.log(torch.exp(row[label]) / sum(torch.exp(logit) for logit in row)))
    return sum(losses) / len(losses)
