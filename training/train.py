"""Train a recipe: ``python -m training.train configs/demo.yaml --output runs/demo --set training.max_minutes=1``.

One loop, from top to bottom: recipe, task, model, optimiser; then batches until the steps or minutes are used up,
with an evaluation by generation now and then; tokens per second are target tokens. In the output folder:

- ``best/`` and ``last/``: complete Hub repositories (weights, config, tokenizer, recipe, and ``best/`` with its
  card), loaded by the Auto classes; ``best`` is the one with the lowest validation error
- ``log.jsonl``: a line for every ``log_every`` steps and every evaluation
- ``recipe.yaml``, ``run.json``: the recipe with all defaults; seed, git commit, versions, minutes, results
"""

import argparse
import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import torch
import transformers
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, broadcast, set_seed
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel, PreTrainedTokenizerBase

import attnzoo
from attnzoo.loss import token_cross_entropy

from .batching import LengthBatchSampler
from .card import write_card
from .recipe import Recipe, Training, load_recipe, save_recipe
from .tasks import make_task


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description="Train a recipe.")
    parser.add_argument("recipe", help="a YAML file under configs/")
    parser.add_argument("--output", type=Path, help="folder for the results (default: runs/<name of the recipe>)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    options = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()  # one bar is enough
    output = options.output or Path("runs") / Path(options.recipe).stem
    try:
        recipe = load_recipe(options.recipe, options.set)
        output.mkdir(parents=True, exist_ok=True)
        task = make_task(recipe)
        recipe.model_config()
        train(recipe, task, output)
    except (OSError, ValueError, FloatingPointError, StrictDataclassError) as error:
        sys.exit(f"error: {error}")  # what the user can put right, without a traceback


def train(recipe: Recipe, task: Any, output: Path) -> dict[str, Any]:
    """Train ``recipe`` and return what ``run.json`` holds.

    Raises:
        FloatingPointError: the training diverges; what it diverged to is not saved.
        ValueError: an example is longer than a batch.
        OSError: ``output`` cannot be written.
    """
    settings = recipe.training
    # Batches differ in size, so that they cannot be evened out between processes.
    loading = DataLoaderConfiguration(even_batches=False)
    accelerator = Accelerator(mixed_precision=_mixed_precision(settings), dataloader_config=loading)
    set_seed(settings.seed, device_specific=True)  # or every process would drop out the same units

    tokenizer = task.make_tokenizer()
    model = _make_model(recipe, task, tokenizer)
    examples = task.training_examples(tokenizer)
    lengths = [(len(row["input_ids"]), len(row["labels"])) for row in examples]
    sampler = LengthBatchSampler(lengths, settings.batch_tokens, settings.seed)
    loader = DataLoader(examples, batch_sampler=sampler, collate_fn=task.collator(tokenizer, model))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    averaged = None
    if settings.ema_decay:
        averaged = AveragedModel(model, accelerator.device, multi_avg_fn=_moving_average(settings.ema_decay))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    accelerator.print(
        f"{task.name}: {len(examples):,} training pairs, {sampler.batch_tokens:,} tokens a batch at most; "
        f"model of {sum(p.numel() for p in model.parameters()):,} parameters; {_precision(accelerator)}, "
        f"{accelerator.num_processes} process(es) of {torch.get_num_threads()} threads"
    )
    run = _describe_run(recipe, accelerator)
    if accelerator.is_main_process:
        save_recipe(recipe, output / "recipe.yaml")

    with _open_log(output / "log.jsonl", accelerator) as log:
        clock = Clock(settings)
        best = math.inf
        evaluations_done = 0
        batches = _forever(loader, sampler)
        bar = _progress_bar(settings, accelerator)
        loss_sum = torch.zeros((), device=accelerator.device)
        tokens_since_log = 0
        progress = 0.0
        while progress < 1:
            # One optimiser step: the loss is averaged over the target tokens of all its batches, on all processes.
            micro_batches = [next(batches) for _ in range(settings.accumulation_steps)]
            num_tokens = sum((batch["labels"] != -100).sum() for batch in micro_batches)
            num_tokens = accelerator.reduce(num_tokens, "sum")
            rate = learning_rate(clock.steps, progress, settings)
            for group in optimizer.param_groups:
                group["lr"] = rate
            for number, batch in enumerate(micro_batches, start=1):
                is_last = number == len(micro_batches)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(model):
                    loss = _loss(model, batch, num_tokens, settings.label_smoothing)
                    accelerator.backward(loss * accelerator.num_processes)  # gradients are averaged over processes
                loss_sum += loss.detach()
            accelerator.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
            if averaged is not None:
                averaged.update_parameters(accelerator.unwrap_model(model))
            clock.steps += 1
            progress = clock.progress(accelerator)
            tokens_since_log += int(num_tokens)
            _advance(bar, clock, progress)

            if clock.steps % settings.log_every == 0:
                row = {
                    "step": clock.steps,
                    "minutes": clock.minutes(),
                    "loss": float(accelerator.reduce(loss_sum, "sum")) / settings.log_every,
                    "learning_rate": rate,
                    "tokens_per_second": tokens_since_log / clock.seconds_since_log(),
                }
                if not math.isfinite(row["loss"]):
                    raise _diverged(f"the loss is {row['loss']}", clock)
                _write_row(log, row)
                bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s")
                loss_sum.zero_()
                tokens_since_log = 0

            # The last evaluation comes at the end, the others evenly before it.
            if progress >= (evaluations_done + 1) / settings.evaluations:
                evaluations_done = max(evaluations_done + 1, math.floor(progress * settings.evaluations))
                minutes = clock.minutes()
                with clock.paused():
                    if accelerator.is_main_process:
                        candidate: Any = accelerator.unwrap_model(model) if averaged is None else averaged.module
                        if not all(parameter.isfinite().all() for parameter in candidate.parameters()):
                            raise _diverged("the weights are not finite", clock)
                        _save(candidate, tokenizer, recipe, output / "last")  # first: an evaluation may fail
                        scores = task.evaluate(candidate, tokenizer, "validation", settings.num_beams)
                        _write_row(log, {"step": clock.steps, "minutes": minutes, "validation": scores})
                        bar.write(f"step {clock.steps}, {minutes:.1f} minutes: validation {_format(task, scores)}")
                        if scores[task.metric] < best:
                            best = scores[task.metric]
                            run |= {"steps": clock.steps, "minutes": minutes, "validation": scores}
                            _save(candidate, tokenizer, recipe, output / "best")
                            write_card(output / "best", recipe, task, run)
                    accelerator.wait_for_everyone()
        bar.close()

    run |= {"total_steps": clock.steps, "total_minutes": clock.minutes()}
    if accelerator.is_main_process:
        (output / "run.json").write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
        print(f"best: validation {_format(task, run['validation'])} after {run['steps']} steps, in {output / 'best'}")
    accelerator.end_training()
    return run


class Clock:
    """How far the training is, in steps or in minutes of training (time spent in evaluations does not count)."""

    def __init__(self, settings: Training) -> None:
        self.settings = settings
        self.steps = 0
        self._started = self._logged = time.perf_counter()

    def minutes(self) -> float:
        return (time.perf_counter() - self._started) / 60

    def progress(self, accelerator: Accelerator) -> float:
        """0 at the start, 1 at the end; the same on every process, or they would stop at different steps."""
        if self.settings.max_steps is not None:
            return min(1.0, self.steps / self.settings.max_steps)
        assert self.settings.max_minutes is not None  # the recipe is checked
        progress = torch.tensor(min(1.0, self.minutes() / self.settings.max_minutes), device=accelerator.device)
        return broadcast(progress).item()

    def seconds_since_log(self) -> float:
        previous, self._logged = self._logged, time.perf_counter()
        return self._logged - previous

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        before = time.perf_counter()
        yield
        pause = time.perf_counter() - before
        self._started += pause
        self._logged += pause


def learning_rate(step: int, progress: float, settings: Training) -> float:
    """The learning rate of a step: linear warm-up, then decay to 0 over the whole run."""
    warmup = min(1.0, (step + 1) / (settings.warmup_steps + 1))
    decay = (1 + math.cos(math.pi * progress)) / 2 if settings.decay == "cosine" else 1 - progress
    return settings.learning_rate * warmup * decay


def _loss(model: nn.Module, batch: dict[str, Tensor], num_tokens: Tensor | int, label_smoothing: float) -> Tensor:
    """The batch's share of a loss averaged over ``num_tokens`` target tokens."""
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    logits = model(**inputs, use_cache=False).logits
    return token_cross_entropy(logits, batch["labels"], num_tokens, label_smoothing)


def _diverged(what: str, clock: Clock) -> FloatingPointError:
    return FloatingPointError(f"{what} at step {clock.steps}; lower training.learning_rate")


def _make_model(recipe: Recipe, task: Any, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    config = recipe.model_config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
    )
    model = AutoModelForSeq2SeqLM.from_config(config)
    model.generation_config.update(**task.generation_config())
    return model


def _mixed_precision(settings: Training) -> str:
    if settings.precision == "auto":
        if torch.cuda.is_available():
            return "bf16" if torch.cuda.is_bf16_supported() else "no"
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every release
        return "bf16" if capabilities.get("amx_bf16") or capabilities.get("avx512_bf16") else "no"
    return "bf16" if settings.precision == "bf16" else "no"


def _precision(accelerator: Accelerator) -> str:
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


def _moving_average(decay: float) -> Callable[[Any, Any, Tensor | int], None]:
    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
        now = min(decay, (1 + float(num_averaged)) / (10 + float(num_averaged)))
        torch._foreach_lerp_(averaged, current, 1 - now)

    return update


def _forever(loader: DataLoader, sampler: LengthBatchSampler) -> Iterator[dict[str, Tensor]]:
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def _progress_bar(settings: Training, accelerator: Accelerator) -> tqdm:
    count = "{n_fmt}/{total_fmt} steps" if settings.max_steps is not None else "{n:.1f}/{total:.1f} minutes"
    # A terminal sees the bar move; a log file gets a line now and then.
    return tqdm(
        total=settings.max_steps or settings.max_minutes,
        desc="training",
        bar_format="{desc} {percentage:3.0f}%|{bar}| " + count + ", {remaining} left{postfix}",
        mininterval=0.5 if sys.stderr.isatty() else 15,
        disable=not accelerator.is_main_process,
    )


def _advance(bar: tqdm, clock: Clock, progress: float) -> None:
    done = clock.steps if clock.settings.max_steps is not None else progress * float(bar.total or 0)
    bar.update(done - bar.n)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_recipe(recipe, folder / "recipe.yaml")


@contextlib.contextmanager
def _open_log(path: Path, accelerator: Accelerator) -> Iterator[TextIO]:
    with open(path if accelerator.is_main_process else os.devnull, "w", encoding="utf-8") as log:
        yield log


def _write_row(log: TextIO, row: dict[str, Any]) -> None:
    log.write(json.dumps(row) + "\n")
    log.flush()


def _format(task: Any, scores: dict[str, float]) -> str:
    return ", ".join(f"{name} {scores[key]:.2f} %" for key, name in task.metric_names.items())


def _describe_run(recipe: Recipe, accelerator: Accelerator) -> dict[str, Any]:
    return {
        "seed": recipe.training.seed,
        "git_commit": _git_commit(),
        "versions": {
            "python": platform.python_version(),
            "attnzoo": attnzoo.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "precision": _precision(accelerator),
        "processes": accelerator.num_processes,
        "threads": torch.get_num_threads(),
    }


def _git_commit() -> str | None:
    """The commit of the working tree, "-dirty" after it if files differ from it; None outside git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


if __name__ == "__main__":
    main()
