"""The peers of the self-attentive benchmark and table: the same model in plain torch, and pooling."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from tests.benchmarks.pooling import PoolingForSequenceClassification
from tests.benchmarks.self_attentive import PlainClassifier, assert_same, batches, measure

SIZES: dict[str, Any] = {
    "vocab_size": 8000,
    "embedding_size": 6,
    "hidden_size": 4,
    "attention_hidden_size": 5,
    "num_hops": 3,
    "classifier_size": 7,
}
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
TYPES = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 0, 0]])


@pytest.mark.parametrize("bucketed", [True, False])
def test_plain_torch_computes_the_same(bucketed: bool) -> None:
    zoo = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**SIZES)).eval()
    plain = PlainClassifier(zoo.config).eval()
    plain.load_zoo_weights(zoo)
    assert_same(zoo, plain, batches(2, 5, bucketed))


def test_measuring_gives_a_time_of_each() -> None:
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    for result in measure(sizes, batches(1, 4, bucketed=True), rounds=1).values():
        assert result.keys() == {"attnzoo", "plain"}


@pytest.mark.parametrize("is_pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_pooling_is_over_the_real_tokens(pooling: str, is_pair: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PoolingForSequenceClassification(SelfAttentiveConfig(**SIZES, sentence_pair=is_pair), pooling).eval()
    ids, labels = torch.randint(3, 9, MASK.shape), torch.tensor([0, 1, 1])
    with torch.no_grad():
        outputs = model(ids, MASK, TYPES, labels=labels)
        for row in range(3):
            vectors = []
            for sentence in (TYPES == 0, TYPES == 1) if is_pair else (MASK == MASK,):
                words = ids[row][(MASK[row] == 1) & sentence[row]]
                states = model.rnn(model.embed_tokens(words[None]), None)[0][-1][0]
                vectors.append(states.amax(dim=0) if pooling == "max" else states.mean(dim=0))
            vector = vectors[0]
            if is_pair:
                vector = (vectors[0] @ model.gate.first_weight[0]) * (vectors[1] @ model.gate.second_weight[0])
            torch.testing.assert_close(outputs.logits[row], model.classifier(model.hidden_proj(vector).relu()))
    torch.testing.assert_close(outputs.loss, torch.nn.functional.cross_entropy(outputs.logits, labels))
    model.save_pretrained(tmp_path)
    loaded = PoolingForSequenceClassification.from_pretrained(tmp_path, pooling=pooling)
    torch.testing.assert_close(loaded(ids, MASK, TYPES).logits, outputs.logits)
    model.train()(ids, MASK, TYPES, labels=labels).loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_another_pooling() -> None:
    with pytest.raises(ValueError, match="'max' or 'mean', got 'sum'"):
        PoolingForSequenceClassification(SelfAttentiveConfig(**SIZES), "sum")
