"""Training and decoding on a GPU, beside plain torch and Marian: time and peak memory of every system.

    make bench-gpu                                   # one GPU, about six minutes; DEVICE=cpu TINY=1 tries it on a CPU
    python -m tests.benchmarks.gpu --read FILE.json  # prints the tables of a measurement

The systems of a row of the table are in one process and take turns; each round begins with another one. The RNNs with
input feeding share one set of weights, those without another. A step of training is forward, loss, backward and an
update by the same fused Adam. The host waits for the GPU before and after a step, and the time between is the step's.
No sequence is padded. Peak memory is that of weights, gradients, optimiser and one step.

Training goes from large sizes to small ones, and greedy search comes before beam search. A stage that has used
up its time leaves out the rest, and a system that fails leaves out its own figures; the file names both. It is written
after every row.
"""

import argparse
import gc
import itertools
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from attnzoo.training.loop.graphs import GraphedStep, captured
from torch import Tensor, nn

import attnzoo
from attnzoo.value_checks import values_are_checked
from tests.benchmarks import transformer_models
from tests.benchmarks.plain_rnn import PlainLayer, PlainRNN
from tests.benchmarks.systems.attnzoo import EOS, AttnZoo
from tests.benchmarks.transformer_models import Size
from tests.benchmarks.workload import SPECIAL, VOCABULARY, Pairs

Work = Callable[[], Any]
Make = Callable[[], Work]
PRODUCTS = "products alone"


class Row(NamedTuple):
    """The systems of a row: each function makes a model, and returns one step of it."""

    about: dict[str, Any]
    tokens: int  # target tokens of a step
    systems: dict[str, Make]


class Sizes(NamedTuple):
    """What is measured. Training takes every length, batch and width; decoding the last length and width."""

    lengths: Sequence[int]
    rows: Sequence[int]
    widths: Sequence[int]
    transformer: Size
    sources: int
    steps: int


WHOLE = Sizes((50, 25), (256, 64), (1024, 512), Size(512, 6), sources=64, steps=25)
TINY = Sizes((5,), (4,), (32,), Size(128, 1), sources=4, steps=5)


# Workload -------------------------------------------------------------------------------------------------------------


def pairs_of(rows: int, length: int) -> Pairs:
    """Random words; with the end token, sources and targets have this length."""
    ids = torch.randint(SPECIAL, VOCABULARY, (2, rows, length - 1), generator=torch.Generator().manual_seed(1)).tolist()
    return Pairs(*ids)


def on_device(batch: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in batch.items()}


def training(model: nn.Module, loss: Callable[[], Tensor], autocast: AbstractContextManager[Any]) -> Work:
    """One training step, which returns the loss."""
    optimiser = torch.optim.Adam(model.train().parameters(), lr=1e-4, fused=True)

    def step() -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        with autocast:
            value = loss()
        value.backward()
        optimiser.step()
        return value.detach()

    return step


def replays(model: Any, batch: dict[str, Tensor], autocast: AbstractContextManager[Any]) -> Work:
    """One training step with ``training.cuda_graphs``. The first call, and on a CPU every call, has no graph."""
    parameters = list(model.train().parameters())
    optimiser = torch.optim.Adam(parameters, lr=1e-4, fused=True)

    def gradients(inputs: dict[str, Tensor], num_labels: Any) -> Tensor:
        with values_are_checked(), autocast:
            loss = model(**inputs, num_items_in_batch=num_labels, skip_logits=True).loss
        loss.backward()
        return loss.detach()

    capture = captured if model.device.type == "cuda" else lambda step: step
    add_gradients = GraphedStep(gradients, parameters, model.config.pad_token_id, capture)

    def step() -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = add_gradients(batch, batch["labels"].numel())
        optimiser.step()
        return loss

    return step


def recurrent_training(sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Luong's RNN, the general score."""
    for width, rows, length, is_bf16 in itertools.product(sizes.widths, sizes.rows, sizes.lengths, (True, False)):
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=is_bf16)
        batch = on_device(transformer_models.batch_of(pairs_of(rows, length)), device)

        def ours(has_feeding: bool, width: int = width, batch: Any = batch, autocast: Any = autocast) -> Work:
            system = AttnZoo("general", has_feeding, width)
            return training(system.model.to(device), partial(system.loss, batch), autocast)

        def plain(
            model_class: Any, *sizes: Any, width: int = width, batch: Any = batch, autocast: Any = autocast
        ) -> Work:
            model = model_class(*sizes, width)
            model.load_zoo_weights(AttnZoo("general", model.has_input_feeding, width).model)
            return training(model.to(device), partial(model, **batch), autocast)

        def replayed(width: int = width, batch: Any = batch, autocast: Any = autocast) -> Work:
            return replays(AttnZoo("general", True, width).model.to(device), batch, autocast)

        dtype = torch.bfloat16 if is_bf16 else torch.float32
        about = {"width": width, "rows": rows, "steps": length, "precision": "bf16" if is_bf16 else "fp32"}
        yield Row(
            about,
            rows * length,
            {
                "attnzoo": partial(ours, True),
                "LSTMCell": partial(plain, PlainRNN, "general", True),
                PRODUCTS: partial(products_alone, rows, length, width, dtype, device),
                "attnzoo, no feeding": partial(ours, False),
                "cuDNN, no feeding": partial(plain, PlainLayer),
                "attnzoo, CUDA graph": replayed,
            },
        )


def products_alone(rows: int, length: int, width: int, dtype: torch.dtype, device: torch.device) -> Work:
    """The matrix products of a step of training with input feeding, and nothing else, on a GPU as one CUDA graph.

    A product that depends on the step before is computed in each step. All others are one product over all steps.
    """
    half, all_rows = width // 2, rows * length
    # (values, weight) of all steps at once: the encoder's inputs, keys, the embeddings' part of the gates, vocabulary
    whole = [(half, 2 * width), (half, 2 * width), (width, width), (half, 4 * width), (width, VOCABULARY)]
    # and of one step: the encoder's states, the gates, the attentional vector
    stepwise = [(half, 2 * width), (half, 2 * width), (2 * width, 4 * width), (2 * width, width)]
    shapes = []  # of both factors, and how often
    for inputs, outputs in whole:  # forward, and the gradient of the values
        shapes += [((all_rows, inputs), (inputs, outputs), 1), ((all_rows, outputs), (outputs, inputs), 1)]
    for inputs, outputs in stepwise:
        shapes += [((rows, inputs), (inputs, outputs), length), ((rows, outputs), (outputs, inputs), length)]
    shapes += [((inputs, all_rows), (all_rows, outputs), 1) for inputs, outputs in whole + stepwise]  # of the weight
    for inputs, outputs in ((width, length), (length, width)):  # scores and contexts
        shapes += [((rows, 1, inputs), (rows, inputs, outputs), length)]
        shapes += [((rows, 1, outputs), (rows, outputs, inputs), length)]
        shapes += [((rows, inputs, length), (rows, length, outputs), 1)]
    made = partial(torch.ones, dtype=dtype, device=device)
    products = [(made(left), made(right), count) for left, right, count in shapes]

    @torch.no_grad()
    def work() -> None:
        for left, right, count in products:
            for _ in range(count):
                left @ right

    if device.type != "cuda":
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay() -> None:
        graph.replay()
        assert products  # kept, since the graph has only the addresses of the factors

    return replay


def transformer_training(sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Transformers of one size."""
    for rows, length, is_bf16 in itertools.product(sizes.rows, sizes.lengths, (True, False)):
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=is_bf16)
        batch = on_device(transformer_models.batch_of(pairs_of(rows, length)), device)

        def make(name: str, batch: Any = batch, autocast: Any = autocast) -> Work:
            model = transformer_models.build(name, sizes.transformer).to(device)
            return training(model, partial(transformer_models.loss_of, name, model, batch), autocast)

        about = {"rows": rows, "steps": length, "precision": "bf16" if is_bf16 else "fp32"}
        names = "attnzoo", "Marian", "torch.nn.Transformer"
        yield Row(about, rows * length, {name: partial(make, name) for name in names})


def decoding(sizes: Sizes, device: torch.device) -> Iterator[Row]:
    """Greedy and beam search with the end token forbidden, in float32."""
    length, width = sizes.lengths[-1], sizes.widths[-1]
    sources = on_device(transformer_models.batch_of(pairs_of(sizes.sources, length)), device)
    del sources["labels"]
    for beams in (1, 5):

        def decode(make: Callable[[], Any], beams: int = beams, **options: Any) -> Work:
            model = make().to(device).eval()
            how = {"num_beams": beams, "do_sample": False, "max_new_tokens": sizes.steps, "suppress_tokens": [EOS]}
            return partial(model.generate, **sources, **how, **options)

        rnn = lambda: AttnZoo("general", True, width).model  # noqa: E731
        transformer = partial(transformer_models.build, "attnzoo", sizes.transformer)
        systems = {
            "RNN, search()": partial(decode, rnn, custom_generate=attnzoo.search),
            "RNN, generate()": partial(decode, rnn),
            "Transformer, search()": partial(decode, transformer, custom_generate=attnzoo.search),
            "Transformer, generate()": partial(decode, transformer),
            "Marian, generate()": partial(decode, partial(transformer_models.build, "Marian", sizes.transformer)),
        }
        yield Row(
            {"sources": sizes.sources, "beams": beams, "steps": sizes.steps}, sizes.sources * sizes.steps, systems
        )


# Measurement ----------------------------------------------------------------------------------------------------------

# Each with its share of the time.
STAGES: dict[str, tuple[Callable[[Sizes, torch.device], Iterator[Row]], float]] = {
    "recurrent_training": (recurrent_training, 0.5),
    "transformer_training": (transformer_training, 0.2),
    "decoding": (decoding, 0.3),
}


class Measurement:
    """The figures so far, in a file."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.rounds, self.output = torch.device(options.device), options.rounds, options.output
        self.found: dict[str, Any] = {
            "environment": environment(self.device),
            "settings": {"rounds": options.rounds, "minutes": options.minutes, "tiny": options.tiny},
            "seconds": {},
            "rows": [],
            "errors": [],
            "left_out": [],
        }

    def write(self) -> None:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.write_text(json.dumps(self.found, indent=1) + "\n")

    def stage(self, name: str, rows: Iterator[Row], seconds: float) -> None:
        """Measure rows until the seconds are over."""
        start = time.perf_counter()
        for row in rows:
            about = {"stage": name} | row.about
            if time.perf_counter() - start > seconds:
                self.found["left_out"].append(about)
                continue
            figures = self.measure(about, row, start + seconds)
            self.found["rows"].append(about | {"target_tokens": row.tokens, "systems": figures})
            shown = ", ".join(f"{system} {of['ms']:.1f} ms" for system, of in figures.items())
            print(f"{name} {' '.join(f'{key} {value}' for key, value in row.about.items())}: {shown}", flush=True)
            self.write()
        self.found["seconds"][name] = round(time.perf_counter() - start, 1)
        self.write()

    def measure(self, about: dict[str, Any], row: Row, end: float) -> dict[str, dict[str, Any]]:
        """Times and memory of the row's systems. After ``end`` it stops at three rounds."""
        works: dict[str, Work] = {}
        figures: dict[str, dict[str, Any]] = {}

        def attempt(name: str, action: Callable[[], Any]) -> Any:
            try:
                return action()
            except Exception as error:
                self.found["errors"].append(about | {"system": name, "error": f"{type(error).__name__}: {error}"[:400]})
                self.write()
                works.pop(name, None)
                figures.pop(name, None)
                self.wait()  # raises if the GPU no longer works for this process: all later figures would be missing

        def prepare(name: str) -> None:
            before = self.memory(starts=True)
            torch.manual_seed(0)
            works[name] = row.systems[name]()
            first = works[name]()
            works[name]()  # with the optimiser's moments
            peak = self.memory() - before if self.device.type == "cuda" else None
            figures[name] = {"peak_MiB": peak, "rounds": []}
            if isinstance(first, Tensor) and not first.ndim:
                figures[name]["first_loss"] = first.item()

        for name in row.systems:
            attempt(name, partial(prepare, name))
        for number in range(self.rounds):
            if number >= 3 and time.perf_counter() > end:
                break
            gc.collect()  # which is off while a step runs
            names = list(works)
            first = number % max(1, len(names))
            for name in names[first:] + names[:first]:
                seconds = attempt(name, partial(self.time, works[name]))
                if seconds is not None:
                    figures[name]["rounds"].append(round(1000 * seconds, 3))
        works.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return {name: {"ms": statistics.median(of["rounds"])} | of for name, of in figures.items()}

    def time(self, work: Work) -> float:
        """Seconds of one step."""
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def memory(self, starts: bool = False) -> float:
        """The peak memory of tensors in MiB since the last call with ``starts``, which gives the memory at present."""
        if self.device.type != "cuda":
            return 0.0
        gc.collect()
        self.wait()
        if starts:
            torch.cuda.reset_peak_memory_stats()
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)


def environment(device: torch.device) -> dict[str, Any]:
    """The machine and the versions."""
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "attnzoo": attnzoo.__version__}
    found = {"device": device.type} | versions | {"python": platform.python_version()}
    found |= {"date": date.today().isoformat(), "commit": printed_by("git", "rev-parse", "--short", "HEAD")}
    if device.type == "cuda":
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda, "cudnn": cudnn.version()}
        found |= {"capability": ".".join(map(str, torch.cuda.get_device_capability()))}
        found |= {"driver": printed_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")}
        found |= {"tf32": {"products": matmul.allow_tf32, "cuDNN": cudnn.allow_tf32}}
    return found


def printed_by(*command: str) -> str | None:
    """The first line that a command prints; None if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def tables(found: dict[str, Any]) -> str:
    """A table in Markdown for each stage: the median milliseconds of every system, and in brackets the MiB."""
    parts = []
    for stage in STAGES:
        rows = [row for row in found["rows"] if row["stage"] == stage]
        if not rows:
            continue
        keys = [key for key in rows[0] if key not in ("stage", "target_tokens", "systems")]
        names = list(dict.fromkeys(name for row in rows for name in row["systems"]))
        lines = [[*keys, *names], ["---"] * (len(keys) + len(names))]
        for row in rows:
            figures = [row["systems"].get(name) for name in names]
            lines.append([str(row[key]) for key in keys] + ["" if of is None else _cell(of) for of in figures])
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    about = found["environment"]
    versions = ", ".join(
        f"{name} {about[name]}" for name in ("torch", "cuda", "driver", "transformers") if about.get(name)
    )
    machine = f"{about.get('gpu', about['device'])}, {versions}, {about['date']}"
    what = f"Milliseconds of a step, medians of {_rounds(found)} rounds; in brackets its peak memory in MiB."
    parts.append(f"{machine}. {what}")
    return "\n\n".join(parts)


def _cell(figures: dict[str, Any]) -> str:
    memory = "" if figures["peak_MiB"] is None else f" ({figures['peak_MiB']:.0f})"
    return f"{figures['ms']:.1f}{memory}"


def _rounds(found: dict[str, Any]) -> str:
    counts = sorted({len(of["rounds"]) for row in found["rows"] for of in row["systems"].values()})
    return " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]]))) if counts else "no"


def main() -> int:
    """Measure and write the file, or print the tables of one. The exit status is 1 if a system failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--output", type=Path, default=Path(".benchmarks/gpu.json"))
    parser.add_argument("--minutes", type=float, default=5.5, help="the time of all stages together")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds of a row; after the time of its stage three are the most"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--read", type=Path, help="print the tables of this file")
    options = parser.parse_args()
    if options.read is not None:
        print(tables(json.loads(options.read.read_text())))
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} sees no GPU; --device cpu --tiny tries the command without one")
    if options.device == "cpu":
        torch.set_num_threads(1)
        torch.backends.mkldnn.set_flags(False)  # on some processors oneDNN has no LSTM in bfloat16
    transformers.logging.set_verbosity_error()
    gc.disable()
    measurement = Measurement(options)
    sizes = TINY if options.tiny else WHOLE
    for name, (rows, share) in STAGES.items():
        measurement.stage(name, rows(sizes, measurement.device), 60 * options.minutes * share)
    for error in measurement.found["errors"]:
        print(f"failed: {error}", file=sys.stderr)
    print(f"\n{tables(measurement.found)}\n\n{options.output} has every round.")
    return bool(measurement.found["errors"])


if __name__ == "__main__":
    sys.exit(main())
