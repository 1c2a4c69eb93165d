"""Compare the self-attentive classifier with the same model in plain torch: training steps and inference.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.self_attentive

Both have the same weights, sizes and optimiser (Adam) and read the same sentences, of 5 to 35 words with a mean of 20,
sorted into batches by length or not, or one at a time. Their rounds take turns, so that a slow moment of the machine
affects both. The program prints the median processor time of a step, which other programs do not lengthen. The plain
model packs its sequences, as in torch's documentation.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from tests.benchmarks.speeds import STORE, store

# Those of the paper's first experiment, and some that train in minutes.
SIZES = {
    "small": {"hidden_size": 128, "attention_hidden_size": 64, "num_hops": 8, "classifier_size": 128},
    "paper": {"hidden_size": 300, "attention_hidden_size": 350, "num_hops": 30, "classifier_size": 2000},
}
VOCABULARY = 8000
Batch = dict[str, Tensor]


class PlainClassifier(nn.Module):
    """Lin et al. (2017, sections 2 and 4) in the plainest way: embedding, packed biLSTM, two products, an MLP."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        width = 2 * config.hidden_size
        self.coefficient = config.penalty_coefficient
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True)
        self.w_s1 = nn.Linear(width, config.attention_hidden_size, bias=False)
        self.w_s2 = nn.Linear(config.attention_hidden_size, config.num_hops, bias=False)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden = nn.Linear(config.num_hops * width, config.classifier_size)
        self.output = nn.Linear(config.classifier_size, config.num_labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Tensor:
        """The loss if there are labels, else the logits."""
        packed = pack_padded_sequence(
            self.embedding(input_ids), attention_mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        scores = self.w_s2(torch.tanh(self.w_s1(states))).transpose(1, 2)
        annotation = scores.masked_fill(attention_mask[:, None] == 0, float("-inf")).softmax(-1)
        matrix = torch.bmm(annotation, states)
        logits = self.output(self.dropout(torch.relu(self.hidden(self.dropout(matrix.flatten(1))))))
        if labels is None:
            return logits
        overlap = torch.bmm(annotation, annotation.transpose(1, 2)) - torch.eye(annotation.shape[1])
        return nn.functional.cross_entropy(logits, labels) + self.coefficient * overlap.square().sum((1, 2)).mean()

    def load_zoo_weights(self, model: SelfAttentiveForSequenceClassification) -> None:
        """The weights of attnzoo's model under the names of this one."""
        layer = model.model.rnn.layers[0]
        pairs = {
            "embedding.weight": model.model.embed_tokens.weight,
            "w_s1.weight": model.model.attention.key_proj.weight,
            "w_s2.weight": model.model.attention.hops,
            **{f"hidden.{name}": tensor for name, tensor in model.hidden_proj.named_parameters()},
            **{f"output.{name}": tensor for name, tensor in model.classifier.named_parameters()},
            **{f"lstm.{name}": tensor for name, tensor in layer.forward_rnn.named_parameters()},
            **{f"lstm.{name}_reverse": tensor for name, tensor in layer.backward_rnn.named_parameters()},
        }
        self.load_state_dict({name: tensor.detach() for name, tensor in pairs.items()})


def batches(count: int, size: int, bucketed: bool, seed: int = 0) -> list[Batch]:
    """``count`` padded batches of ``size`` random sentences."""
    generator = random.Random(seed)
    lengths = [min(35, max(5, round(generator.normalvariate(20, 7)))) for _ in range(count * size)]
    if bucketed:
        lengths.sort()
    made = []
    for start in range(0, len(lengths), size):
        part = torch.tensor(lengths[start : start + size])
        mask = torch.arange(int(part.max())) < part[:, None]
        ids = torch.tensor([[generator.randrange(1, VOCABULARY) for _ in row] for row in mask.tolist()])
        labels = torch.tensor([generator.randrange(2) for _ in part])
        made.append({"input_ids": ids * mask, "attention_mask": mask.long(), "labels": labels})
    generator.shuffle(made)
    return made


def training_step(model: nn.Module) -> Callable[[Batch], None]:
    """One step of Adam on a batch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> None:
        optimiser.zero_grad()
        loss = model(**batch)
        (loss if isinstance(loss, Tensor) else loss.loss).backward()
        optimiser.step()

    return step


def inference_step(model: nn.Module) -> Callable[[Batch], None]:
    """The logits of a batch."""

    @torch.inference_mode()
    def step(batch: Batch) -> None:
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])

    return step


def interleaved(steps: dict[str, Callable[[Batch], None]], data: list[Batch], rounds: int) -> dict[str, float]:
    """The median milliseconds of a step, over ``rounds`` passes of each model through ``data``."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name in list(steps) if number % 2 else reversed(steps):
            start = time.process_time()
            for batch in data:
                steps[name](batch)
            if number:  # the first is for warming up
                times[name].append((time.process_time() - start) / len(data) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def assert_same(zoo: nn.Module, plain: nn.Module, data: list[Batch]) -> None:
    """Check that both models compute the same, without which a comparison is meaningless."""
    with torch.inference_mode():
        for batch in data:
            outputs = zoo(**batch)
            torch.testing.assert_close(outputs.loss, plain(**batch), rtol=1e-4, atol=1e-4)
            del batch["labels"]
            torch.testing.assert_close(outputs.logits, plain(**batch), rtol=1e-4, atol=1e-4)


def measure(sizes: dict[str, int], data: list[Batch], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step of each of the two models, in inference and, for batches of several rows, in training."""
    torch.manual_seed(0)
    config = SelfAttentiveConfig(vocab_size=VOCABULARY, **sizes)
    models = {"attnzoo": SelfAttentiveForSequenceClassification(config).eval(), "plain": PlainClassifier(config).eval()}
    models["plain"].load_zoo_weights(models["attnzoo"])
    assert_same(models["attnzoo"], models["plain"], [dict(batch) for batch in data])
    results = {"inference": interleaved({name: inference_step(models[name]) for name in models}, data, rounds)}
    if len(data[0]["labels"]) > 1:
        steps = {name: training_step(models[name].train()) for name in models}
        results["training"] = interleaved(steps, data, rounds)
    return results


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--store", action="store_true", help=STORE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, batches of {arguments.batch_size}, ms of the processor a step")
    print("| sizes | batches | step | attnzoo | plain torch | plain / attnzoo |")
    print("|---|---|---|---|---|---|")
    kinds = {
        "batches sorted by length": batches(arguments.batches, arguments.batch_size, bucketed=True),
        "unsorted batches": batches(arguments.batches, arguments.batch_size, bucketed=False),
        "one sentence": batches(arguments.batches, 1, bucketed=False),
    }
    ratios: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for name, sizes in SIZES.items():
        for kind, data in kinds.items():
            for step, result in measure(sizes, data, arguments.rounds).items():
                ratio = ratios[kind][f"{step}, {name} sizes"] = result["plain"] / result["attnzoo"]
                row = f"{result['attnzoo']:.1f} | {result['plain']:.1f} | {ratio:.2f}"
                print(f"| {name} | {kind} | {step} | {row} |", flush=True)
    if arguments.store:
        store("self_attentive", arguments.rounds, ratios)


if __name__ == "__main__":
    main()
