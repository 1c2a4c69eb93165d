"""Train a model from a recipe: ``attnzoo train demo --output runs/demo``.

:func:`train` sets up recipe, task, model and optimiser, then trains on batches, with evaluations, until the steps or
minutes are used up. Tokens per second are target tokens; a label counts as one. The output folder has:

- ``best/`` and ``last/``: complete Hub repositories with weights, config, tokenizer and recipe. The Auto classes load
  them. ``best`` has the best figure on the validation split, and a card.
- ``checkpoints/``: ``--resume`` continues from the newest one. The resumed training gives the same weights, bit for
  bit, in fp32 on the same machine with the same number of processes and threads. A checkpoint is written every
  ``checkpoint_every`` steps, when a minute has passed since the last one, and at every evaluation; Ctrl-C, SIGTERM and
  a closed terminal write one before they stop.
- ``log.jsonl``: a line for every ``log_every`` steps and for every evaluation.
- ``recipe.yaml``: the recipe with all defaults and the paths to the data as given. The copies in ``best/`` and
  ``last/`` have no absolute paths.
- ``run.json``: seed, git commit, versions, minutes and results.

On several processes (``accelerate launch`` on GPUs, ``ACCELERATE_USE_CPU=1 torchrun`` on CPUs) each process takes its
part of the batches and of the evaluation. The loss is averaged over the target tokens of all processes.
"""

import contextlib
import functools
import gc
import json
import math
import signal
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.value_checks import values_are_checked

from .card import describe, write_card
from .commands.exits import StoppedError, exit_on_user_error
from .commands.parsers import train_parser
from .loop.checkpoint import checkpoint_folder, replacing, rotate, save_tokenizer, write_atomically
from .loop.graphs import Gradients, GraphedStep
from .loop.loss_terms import total_loss
from .loop.progress import Batch, Clock, progress_bar
from .loop.run_folder import contents, differences, read_run, start_output, write_row
from .loop.schedule import learning_rate
from .loop.setup import Run, setup
from .loop.stopping import signals_to_stop
from .recipe import Recipe, for_other_machines, load_recipe, make_task, save_recipe
from .tasks.base import Task


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = train_parser().parse_args(arguments)
    output = options.output or Path("runs") / Path(options.recipe).stem
    with exit_on_user_error("--resume continues from there"):
        recipe = load_recipe(options.recipe, options.set)
        train(recipe, make_task(recipe), output, resume=options.resume, overwrite=options.overwrite)


def train(recipe: Recipe, task: Task, output: Path, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Train a model from ``recipe`` and return the content of ``run.json``.

    Raises:
        FloatingPointError: the training diverges. Diverged weights are not saved.
        ValueError: an example of any split is longer than a batch; ``output`` holds a run, and neither ``resume`` nor
            ``overwrite`` is given; ``output`` holds a file that the training would delete and no training wrote, or one
            that the recipe names; the run to resume is finished, has another recipe, model or data, or only damaged
            checkpoints, or its processes cannot share the batches of a step; several processes were started without a
            connection between them.
        OSError: ``output`` cannot be written, or has too little room.
        StoppedError: SIGTERM, Ctrl-C or a closed terminal; the last step is saved.
    """
    settings = recipe.training
    run = setup(recipe, task, output, resume, overwrite)
    accelerator, state, clock, best = run.accelerator, run.state, run.state.clock, run.state.best
    gradients: Gradients = functools.partial(batch_gradients, run)
    if settings.cuda_graphs:
        pad_token_id: Any = state.model.config.pad_token_id  # type: ignore[union-attr]
        gradients = GraphedStep(gradients, list(state.model.parameters()), pad_token_id)
    with signals_to_stop() as received:
        # A run may have been killed after its last evaluation, before it wrote run.json.
        progress = 1.0 if best.is_out_of_patience(settings.patience) else clock.progress(accelerator)
        bar = progress_bar(clock, progress, is_shown=accelerator.is_main_process)
        while progress < 1:
            batches, num_labels, is_due, signum = next_step(run, received)
            rate = learning_rate(clock.steps, progress, state.batches.epochs(), settings)
            add_gradients(run, gradients, batches, num_labels)
            if accelerator.is_main_process and not clock.steps:  # everything in the recipe was read and fits
                start_output(output, recipe, run.replaced)
            step(run, rate)
            progress = clock.progress(accelerator)
            state.since_log.tokens += num_labels
            bar.set_description_str(clock.described(), refresh=False)
            bar.update(progress - bar.n)

            if clock.steps % settings.log_every == 0:
                log_step(run, rate, bar)
            # The last evaluation comes at the end, the others evenly before it.
            is_evaluated = progress >= (best.evaluations + 1) / settings.evaluations
            if is_evaluated:
                best.evaluations = max(best.evaluations + 1, math.floor(progress * settings.evaluations))
                evaluate(run, bar)
                if best.is_out_of_patience(settings.patience):
                    bar.write(f"no better evaluation in {best.evaluations_since}; stopping early")
                    progress = 1.0
            if is_evaluated or is_due or signum or clock.steps % settings.checkpoint_every == 0:
                clock.checkpoint_begins()
                with clock.paused():
                    state.save(output, settings.keep_checkpoints)
            if signum and progress < 1:
                bar.close()
                del run.model
                end(accelerator)
                raise StoppedError(max(received, default=int(signal.SIGTERM)), clock.steps)
        bar.close()
    return finish(run)


def next_step(run: Run, received: list[int]) -> tuple[list[Batch], int, int, int]:
    """The batches of this process, the labels in those of all processes, whether a checkpoint is due after this step
    by the clock of the main process, and whether a process received a signal.

    If a process has no batches left in an epoch, all begin the next one. With a stream, no process knows how many
    batches the others have.

    Raises:
        OSError, ValueError: the data of this process, or of another, cannot be used.
    """
    while True:
        batches: list[Batch] = []
        error: Exception | None = None
        try:
            batches = run.state.batches.take(run.accumulation_steps)
        except (OSError, ValueError) as raised:  # the others would wait for this process
            error = raised
        num_labels = sum(batch.num_labels for batch in batches)
        is_due = int(run.accelerator.is_main_process and run.state.clock.is_checkpoint_due())
        here = num_labels, is_due, max(received, default=0), not batches, error is not None
        num_labels, is_due, signum, ended, failed = summed(run.accelerator, *here)
        if failed:
            raise error or ValueError("another process cannot use its part of the training data; it says why")
        if not ended:
            return batches, num_labels, is_due, signum
        run.state.batches.end_epoch()


def summed(accelerator: Accelerator, *numbers: int) -> list[int]:
    """The sums of whole numbers over all processes. One process asks no device."""
    if accelerator.num_processes == 1:
        return list(numbers)
    return accelerator.reduce(torch.tensor(numbers, device=accelerator.device), "sum").tolist()


def add_gradients(run: Run, gradients: Gradients, batches: list[Batch], num_labels: int) -> None:
    """Add the clipped gradients of one optimiser step: the mean over the labels of all batches, on all processes."""
    settings, accelerator = run.recipe.training, run.accelerator
    for number, batch in enumerate(batches, start=1):
        is_last = number == len(batches)
        with contextlib.nullcontext() if is_last else accelerator.no_sync(run.model):
            run.state.since_log.loss += gradients(batch.inputs, num_labels)
    accelerator.clip_grad_norm_(run.model.parameters(), settings.max_grad_norm)


def batch_gradients(run: Run, inputs: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
    """Add the gradients of one batch to those of the parameters, and return its loss, a scalar."""
    smoothing, accelerator = run.recipe.training.label_smoothing, run.accelerator
    with values_are_checked():  # where the batch was collated
        loss = total_loss(run.model, inputs, num_labels, smoothing, run.terms, accelerator.autocast)
    accelerator.backward(loss * accelerator.num_processes)  # gradients are averaged over processes
    return loss.detach()


def step(run: Run, rate: float) -> None:
    """Take an optimiser step with this learning rate, and update the moving average."""
    state = run.state
    for group in state.optimizer.param_groups:
        group["lr"] = rate
    state.optimizer.step()
    state.optimizer.zero_grad()
    if state.averaged is not None:
        state.averaged.after_step(state.model)
    state.clock.steps += 1
    state.since_log.steps += 1


def log_step(run: Run, rate: float, bar: tqdm) -> None:
    """Write the row of the steps since the last one to the log and the tracker, and show it on the bar.

    Raises:
        FloatingPointError: the loss is not finite.
    """
    clock, since_log, accelerator = run.state.clock, run.state.since_log, run.accelerator
    row = {
        "step": clock.steps,
        "minutes": clock.minutes(),
        "epoch": run.state.batches.epochs(),
        "loss": float(accelerator.reduce(since_log.loss, "sum")) / since_log.steps,
        "learning_rate": rate,
        "tokens_per_second": since_log.tokens / clock.seconds_since_log(),
    }
    if not math.isfinite(row["loss"]):
        raise _diverged(f"the loss is {row['loss']}", clock)
    if accelerator.is_main_process:
        write_row(run.log, row)
    accelerator.log({name: row[name] for name in row if name != "step"}, step=clock.steps)
    bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s")
    since_log.reset()


def evaluate(run: Run, bar: tqdm) -> None:
    """Save the weights in ``last/``, measure them on the validation split, and save the best ones so far in ``best/``.

    Raises:
        FloatingPointError: a weight is not finite.
    """
    settings, task, state, accelerator = run.recipe.training, run.task, run.state, run.accelerator
    clock, minutes = state.clock, state.clock.minutes()
    with clock.paused():
        model: Any = state.model if state.averaged is None else state.averaged.current(state.model)
        if not all(parameter.isfinite().all() for parameter in model.parameters()):
            raise _diverged("the weights are not finite", clock)
        save = functools.partial(_save, model, run.tokenizer, run.recipe)
        if accelerator.is_main_process:  # first: an evaluation may fail
            save(run.output / "last")
            if settings.keep_evaluated:
                save(checkpoint_folder(run.output / "evaluated", clock.steps))
                rotate(run.output / "evaluated", settings.keep_evaluated)
        measured = measure_validation(run, model)
        if accelerator.is_main_process:
            write_row(run.log, {"step": clock.steps, "minutes": minutes, "validation": measured})
        accelerator.log({f"validation_{name}": value for name, value in measured.items()}, step=clock.steps)
        bar.write(f"step {clock.steps}, {minutes:.1f} minutes: validation {describe(task, measured)}")
        figures = {"steps": clock.steps, "minutes": minutes, "validation": measured}
        is_best = state.best.update(measured[task.metric], figures, clock.steps <= settings.warmup_steps)
        if is_best and accelerator.is_main_process:
            save(run.output / "best", task, run.description | figures)
        accelerator.wait_for_everyone()


def measure_validation(run: Run, model: PreTrainedModel) -> dict[str, float]:
    """The figures on the validation split. Each process predicts its own part of the rows."""
    rows = list(range(len(run.task.splits["validation"])))
    with run.accelerator.split_between_processes(rows) as mine:
        predictions = run.task.predict(model, run.tokenizer, "validation", run.recipe.training.num_beams, rows=mine)
    return run.task.measure("validation", gather_object(predictions))


def finish(run: Run) -> dict[str, Any]:
    """Write ``run.json`` and return its content."""
    clock, output = run.state.clock, run.output
    figures = run.description | run.state.best.figures
    figures |= {"total_steps": clock.steps, "total_minutes": clock.minutes()}
    if run.accelerator.is_main_process:
        write_atomically(output / "run.json", json.dumps(figures, indent=2) + "\n")
        shown = describe(run.task, figures["validation"])
        print(f"best: validation {shown} after {figures['steps']} steps, in {output / 'best'}")
    del run.model
    end(run.accelerator)
    return figures


def end(accelerator: Accelerator) -> None:
    """Free the model, then close the process group. The caller has dropped its wrapped model.

    In torch 2.13, if DistributedDataParallel holds the last reference to the group, its destructor waits for the
    group's thread with the GIL held. That thread may need the GIL to free a tensor: a deadlock.
    """
    accelerator.free_memory()
    gc.collect()  # free_memory collects garbage before it drops its own reference
    accelerator.end_training()


def train_once(recipe: Recipe, task: Task, output: Path) -> dict[str, Any]:
    """Train, or resume an interrupted run, unless ``output`` holds a finished run of this recipe. Return ``run.json``.

    Raises:
        ValueError: ``output`` has a run of another recipe, or a part of a run without its recipe.
    """
    own = output / "recipe.yaml"
    if not (output / "run.json").is_file():  # written at the end of a training
        print(f"\n{output.name}:")
        return train(recipe, task, output, resume=bool(contents(output)))
    if changed := differences(load_recipe(own), recipe):
        raise ValueError(
            f"{output} was trained from another recipe, which differs in {', '.join(changed)}; remove it, or keep the "
            "new models elsewhere"
        )
    return read_run(output)


def _diverged(what: str, clock: Clock) -> FloatingPointError:
    return FloatingPointError(f"{what} at step {clock.steps}; lower training.learning_rate")


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, folder: Path, *card: Any) -> None:
    """Write a Hub repository; with a card if the task and the run's figures are given."""
    with replacing(folder) as new:
        model.save_pretrained(new)
        save_tokenizer(tokenizer, new)
        save_recipe(for_other_machines(recipe), new / "recipe.yaml")
        if card:
            write_card(new, folder, recipe, *card)


if __name__ == "__main__":
    main()
