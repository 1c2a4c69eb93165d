"""A guard against slower code: training and decoding, compared with plain torch, in some minutes.

    make bench-quick                                          # compares with tests/benchmarks/quick.json
    OMP_NUM_THREADS=1 python -m tests.benchmarks.quick --store    # after a change that is meant to be faster

A row's ratio is the processor time of a reference on this machine over ours. The two take turns. The references are the
same models in plain torch, or ``generate()`` if that is the plain way. The file has, for every processor and row, the
median and the first and third quartile of the ratios. The command fails if a row's median is more than 10 % below the
stored first quartile, or if nothing is stored for this processor. In that case check out the commit before the change
and store its ratios first.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, search
from tests.benchmarks import self_attentive, transformer_models
from tests.benchmarks.plain_rnn import PlainRNN
from tests.benchmarks.systems.attnzoo import EOS, AttnZoo
from tests.benchmarks.workload import batches

STORED = Path(__file__).with_name("quick.json")
MARGIN = 0.1
STEPS = 25  # of decoding
WORD = 5  # steps of a short output
Work = Callable[[], Any]


class Row(NamedTuple):
    """The two systems of a row: each call is one step of the same work."""

    name: str
    ours: Work
    reference: Work
    repeat: int = 1


def training(model: nn.Module, losses: list[Callable[[], torch.Tensor]]) -> Work:
    """One training step on the next of the batches: forward, backward and an update."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    turn = 0

    def step() -> float:
        nonlocal turn
        optimiser.zero_grad(set_to_none=True)
        loss = losses[turn % len(losses)]()
        turn += 1
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def recurrent_training() -> Iterator[Row]:
    for score, has_feeding, is_sorted in (
        ("general", True, True),
        ("general", True, False),
        ("additive", True, True),
        ("general", False, True),
    ):
        torch.manual_seed(0)
        ours, plain = AttnZoo(score, has_feeding), PlainRNN(score, has_feeding)
        plain.load_zoo_weights(ours.model)
        data = [ours.batch(pairs) for pairs in batches(2, 64, 21, bucketed=is_sorted)]
        feeding = "feeding" if has_feeding else "no feeding"
        yield Row(
            f"RNN training, {score}, {feeding}, {'sorted' if is_sorted else 'unsorted'}",
            training(ours.model.train(), [partial(ours.loss, batch) for batch in data]),
            training(plain, [partial(plain, **batch) for batch in data]),
        )


def transformer_training() -> Iterator[Row]:
    data = [transformer_models.batch_of(pairs) for pairs in batches(2, 64, 21)]
    steps = []
    for name in ("attnzoo", "torch.nn.Transformer"):
        model = transformer_models.build(name).train()
        steps.append(training(model, [partial(transformer_models.loss_of, name, model, batch) for batch in data]))
    yield Row("Transformer training, sorted", *steps)


def classifier() -> Iterator[Row]:
    torch.manual_seed(0)
    sizes = self_attentive.SIZES["small"]
    config = SelfAttentiveConfig(vocab_size=self_attentive.VOCABULARY, classifier_dropout=0.0, **sizes)
    ours, plain = SelfAttentiveForSequenceClassification(config), self_attentive.PlainClassifier(config)
    plain.load_zoo_weights(ours)
    many, one = (self_attentive.batches(1, size, bucketed=True)[0] for size in (32, 1))
    yield Row(
        "classifier training, small",
        training(ours.train(), [lambda: ours(**many).loss]),
        training(plain.train(), [lambda: plain(**many)]),
        repeat=4,
    )
    steps = [self_attentive.inference_step(model) for model in (ours, plain)]
    yield Row("classifier, one sentence, small", lambda: steps[0](one), lambda: steps[1](one), repeat=100)


def decoding() -> Iterator[Row]:
    torch.manual_seed(0)
    rnn, plain = AttnZoo("general", True), PlainRNN("general", True)
    plain.load_zoo_weights(rnn.model)
    transformer: Any = transformer_models.build("attnzoo").eval()
    rnn.model.eval()
    one, many = (rnn.batch(batches(1, size, 21)[0]) for size in (1, 64))

    def decode(model: Any, batch: Any, beams: int, steps: int, **options: Any) -> Work:
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        return lambda: model.generate(
            **inputs, num_beams=beams, do_sample=False, max_new_tokens=steps, suppress_tokens=[EOS], **options
        ).tolist()

    fast = {"custom_generate": search}
    for steps, batch, repeat in ((WORD, one, 20), (STEPS, one, 5), (STEPS, many, 1)):
        inputs = batch["input_ids"], batch["attention_mask"], steps, EOS
        name = f"RNN greedy, {len(batch['input_ids'])} source(s), {steps} steps, search() to plain torch"
        yield Row(name, decode(rnn.model, batch, 1, steps, **fast), partial(plain.greedy, *inputs), repeat)
    for called, model in (("RNN", rnn.model), ("Transformer", transformer)):
        for beams, batch, repeat in ((5, one, 2), (1, one, 4)):
            name = f"{called}, beams {beams}, one source, {STEPS} steps, search() to generate()"
            yield Row(name, decode(model, batch, beams, STEPS, **fast), decode(model, batch, beams, STEPS), repeat)


def measure(row: Row, rounds: int) -> list[float]:
    """The ratio of every round, after a round to warm up, in which both must give the same result."""
    ours, reference = row.ours(), row.reference()
    same = abs(ours - reference) < 1e-3 if isinstance(ours, float) else ours == reference
    if not same and row.name != "Transformer training, sorted":  # whose reference has biases of its own
        raise RuntimeError(f"{row.name}: attnzoo and the reference give other results")
    ratios = []
    for number in range(rounds):
        seconds = {}
        for name, work in (("ours", row.ours), ("reference", row.reference))[:: 1 if number % 2 else -1]:
            start = time.process_time()
            for _ in range(row.repeat):
                work()
            seconds[name] = time.process_time() - start
        ratios.append(seconds["reference"] / seconds["ours"])
    return ratios


def processor() -> str:
    """Vendor, family and model of this machine's processor, by which ratios are stored."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "vendor_id" in about:  # x86
        return f"{about['vendor_id']} family {about['cpu family']} model {about['model']}"
    named = (about.get(name) for name in ("CPU implementer", "CPU part"))  # ARM
    return " ".join([platform.machine(), *filter(None, named)])


def main() -> int:
    """Measure all rows; store the ratios, or compare them with the stored ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} anew")
    options = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    if not options.store and processor() not in stored:
        print(
            f"{STORED} has no ratios of this processor, {processor()}; check out the commit before your change, run "
            "this with --store on an idle core, and compare your change with that",
            file=sys.stderr,
        )
        return 2
    torch.set_num_threads(1)
    known = {} if options.store else stored[processor()]["rows"]
    found, slower = {}, []
    for rows in (recurrent_training, transformer_training, classifier, decoding):
        for row in rows():
            ratios = measure(row, options.rounds)
            low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
            found[row.name] = {"low": round(low, 3), "median": round(median, 3), "high": round(high, 3)}
            before = known.get(row.name)
            is_slower = before is not None and median < (1 - MARGIN) * before["low"]
            slower += [row.name] if is_slower else []
            interval = f", stored {before['low']:.2f} to {before['high']:.2f}" if before else ""
            print(f"{row.name}: {median:.2f}{interval}{'  SLOWER' if is_slower else ''}", flush=True)
    if options.store:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        about = {"commit": commit.stdout.strip(), "date": date.today().isoformat(), "torch": torch.__version__}
        stored[processor()] = about | {"rounds": options.rounds, "rows": found}
        STORED.write_text(json.dumps(stored, indent=2) + "\n")
        return 0
    if slower:
        print(f"slower than stored: {'; '.join(slower)}", file=sys.stderr)
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
