"""Train a model from a recipe: ``attnzoo train demo --output runs/demo --set training.max_minutes=1``.

One loop, from top to bottom: recipe, task, model, optimiser; then batches, with evaluations, until the steps or minutes
are used up. Tokens per second are target tokens; a label counts as one. The output folder has:

- ``best/`` and ``last/``: complete Hub repositories with weights, config, tokenizer and recipe. The Auto classes load
  them. ``best`` had the best score on the validation split; it also has a card.
- ``checkpoints/``: ``--resume`` continues from the newest. The resumed training gives the same weights, bit for bit, in
  fp32 on the same machine with the same number of processes and threads. Ctrl-C and SIGTERM write a checkpoint before
  they stop.
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
import os
import signal
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from accelerate.tracking import get_available_trackers
from accelerate.utils import broadcast_object_list, gather_object, send_to_device, set_seed
from datasets import IterableDataset
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.loss import IGNORED

from .card import describe, write_card
from .commands import train_parser
from .data.text_files import short
from .loop.average import MovingAverage
from .loop.batching import LengthBatchSampler, LengthBatchStream, check_lengths, length_of
from .loop.checkpoint import (
    checkpoint_folder,
    checkpoints,
    recover,
    replacing,
    require_room,
    rotate,
    save_tokenizer,
    set_damaged_aside,
    write_atomically,
)
from .loop.distillation import Teachers
from .loop.guided_alignment import GuidedAlignment
from .loop.loss_terms import LabelLoss, LossTerm, total_loss
from .loop.progress import Batches, Best, Clock, SinceLog, progress_bar
from .loop.run_folder import (
    check_output,
    contents,
    describe_run,
    differences,
    read_run,
    size_of,
    start_log,
    start_output,
    write_row,
)
from .loop.schedule import learning_rate, make_optimizer
from .loop.starting import Start
from .loop.stopping import StoppedError, exit_on_user_error, signals_to_stop
from .loop.threads import take_free_processors
from .loop.training_state import TrainingState
from .recipe import Recipe, Training, load_recipe, save_recipe, without_machine_paths
from .tasks import make_task
from .tasks.base import Task

LONGEST = 512  # tokens a tokenizer truncates to, on request, if the model has no limit of its own


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = train_parser().parse_args(arguments)
    output = options.output or Path("runs") / Path(options.recipe).stem
    with exit_on_user_error("--resume goes on from there"):
        recipe = load_recipe(options.recipe, options.set)
        train(recipe, make_task(recipe), output, resume=options.resume, overwrite=options.overwrite)


def train(recipe: Recipe, task: Task, output: Path, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Train ``recipe`` and return what ``run.json`` holds.

    Raises:
        FloatingPointError: the training diverges. Diverged weights are not saved.
        ValueError: an example of any split is longer than a batch; ``output`` holds a run, and neither ``resume`` nor
            ``overwrite`` is given; ``output`` holds a file that the training would delete and no training wrote, or one
            that the recipe names; the run to resume has another recipe, model, data or number of processes, or no
            undamaged checkpoint; several processes were started that do not know of each other.
        OSError: ``output`` cannot be written, or has too little room.
        StoppedError: SIGTERM or Ctrl-C; the last step is saved.
    """
    settings = recipe.training
    if settings.tracker and settings.tracker not in map(str, get_available_trackers()):
        package = settings.tracker
        raise ValueError(f"training.tracker={package} needs a package that is missing: pip install {package}")
    precision = _mixed_precision(settings)
    accelerator = Accelerator(mixed_precision=precision, log_with=settings.tracker, project_dir=output)
    if int(os.environ.get("WORLD_SIZE", 1)) > accelerator.num_processes:
        raise ValueError(
            f"{os.environ['WORLD_SIZE']} processes were started, and each would train alone, in one folder; on CPUs "
            "call torchrun with ACCELERATE_USE_CPU=1"
        )
    checkpoint = check_output(output, recipe, resume, overwrite) if accelerator.is_main_process else None
    [checkpoint] = broadcast_object_list([checkpoint])
    if settings.max_minutes is not None:  # how many steps it takes depends on the machine anyway
        take_free_processors()
    set_seed(settings.seed)

    start = None
    tokenizer: PreTrainedTokenizerBase
    if settings.start_from is None:
        tokenizer = task.make_tokenizer()
    elif checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)  # its weights are there, too
    else:
        start = Start(settings.start_from, task)
        tokenizer = start.tokenizer()
    config = recipe.model_config(**task.config_fields(tokenizer))
    is_sharded = accelerator.distributed_type == DistributedType.FSDP
    is_averaged = bool(settings.ema_decay) or is_sharded
    replaced = [] if resume else contents(output)
    if accelerator.is_main_process:
        require_room(output, _room_needed(task, config, settings, is_averaged) - size_of(replaced))
    model = task.auto_class.from_config(config)  # the same on every process; when sharded, each keeps a part
    longest = getattr(config, "max_position_embeddings", LONGEST)
    tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
    task.prepare(model, tokenizer)
    if start is not None:
        start.copy_weights(model)
    if accelerator.process_index:
        set_seed(settings.seed, device_specific=True)  # otherwise all processes drop the same units
    examples = task.training_examples(tokenizer)
    collate = task.collator(tokenizer, model)
    guide = None
    if settings.alignment_links is not None:
        head = settings.alignment_layer, settings.alignment_head, settings.alignment_shift
        guide = GuidedAlignment(settings.alignment_links, settings.alignment_weight, *head)
        examples, collate = guide.add_links(examples, task, tokenizer), guide.collator(collate)
    batches_per_step = accelerator.num_processes * settings.accumulation_steps
    batching = settings.batch_tokens, settings.seed, batches_per_step

    def describe_example(example: dict[str, Any]) -> str:
        return short(repr(tokenizer.decode(example["input_ids"], skip_special_tokens=True)))

    order: LengthBatchSampler | LengthBatchStream
    if isinstance(examples, IterableDataset):
        order, size = LengthBatchStream(examples, *batching, describe_example, task.longest), "streamed"
    else:
        lengths = [length_of(row) for row in examples]
        order = LengthBatchSampler(lengths, *batching, lambda row: describe_example(examples[row]))
        size = f"{len(examples):,}"

    for split in ("validation", "test"):  # before the training: a decoder may take hours for such a row
        check_lengths(task.held_out_examples(tokenizer, split), split, settings.batch_tokens, describe_example)

    def load(batch: list[Any]) -> dict[str, Tensor]:
        rows = batch if isinstance(examples, IterableDataset) else examples.__getitems__(batch)
        return send_to_device(collate(rows), accelerator.device)

    optimizer = make_optimizer(model.parameters(), settings)
    averaged = MovingAverage(model, settings.ema_decay, accelerator.device) if is_averaged else None
    model, optimizer = accelerator.prepare(model, optimizer)

    clock, best = Clock(settings), Best(task.greater_is_better)
    batches = Batches(order, load, accelerator.process_index, accelerator.num_processes)
    since_log = SinceLog(accelerator.device)
    unwrapped = accelerator.unwrap_model(model)
    terms: list[LossTerm] = [LabelLoss(unwrapped)]
    if settings.teachers:
        roles = task.auto_class, tokenizer, unwrapped
        terms = [Teachers(settings.teachers, settings.teachers_share, *roles, accelerator.device)]
    if guide is not None:
        terms.append(guide)
    given = None if settings.start_from is None else tokenizer
    state = TrainingState(accelerator, unwrapped, optimizer, averaged, clock, batches, best, since_log, given)
    if checkpoint is not None:
        state.load(checkpoint)
    accelerator.print(
        f"{task.name}: {size} training examples, {len(task.splits['validation']):,} for validation; "
        f"{settings.batch_tokens:,} tokens a batch at most; "
        f"model of {sum(p.numel() for p in model.parameters()):,} parameters; {_precision(accelerator)}, "
        f"{accelerator.num_processes} process(es) of {torch.get_num_threads()} threads"
        + (f"; going on after step {clock.steps}" if resume else "")
    )
    run = describe_run(settings.seed, _precision(accelerator), accelerator.num_processes)
    if settings.tracker:
        project = settings.tracker if settings.tracker == "tensorboard" else "attnzoo"  # of tensorboard it is a folder
        chosen = {key: value for key, value in vars(settings).items() if isinstance(value, bool | int | float | str)}
        names = {tracker: {"name": output.name} for tracker in ("trackio", "wandb")}
        accelerator.init_trackers(project, chosen, init_kwargs=names)

    log = output / "log.jsonl"
    if accelerator.is_main_process and checkpoint is not None:
        set_damaged_aside(output, checkpoint)
        for name in ("best", "last"):
            recover(output / name)
        start_log(log, clock.steps)
    with signals_to_stop() as received:
        bar = progress_bar(settings, is_shown=accelerator.is_main_process)
        # A run may have been killed after its last evaluation, before it wrote run.json.
        progress = 1.0 if best.is_out_of_patience(settings.patience) else clock.progress(accelerator)
        while progress < 1:
            # One optimiser step: the loss is averaged over the target tokens of all its batches, on all processes.
            micro_batches = [next(batches) for _ in range(settings.accumulation_steps)]
            num_tokens = torch.stack([(batch["labels"] != IGNORED).sum() for batch in micro_batches]).sum()
            signum = torch.as_tensor(max(received, default=0), device=accelerator.device)
            num_tokens, signum = accelerator.reduce(torch.stack([num_tokens, signum]), "sum")
            rate = learning_rate(clock.steps, progress, batches.epochs(), settings)
            for group in optimizer.param_groups:
                group["lr"] = rate
            for number, batch in enumerate(micro_batches, start=1):
                is_last = number == len(micro_batches)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(model):
                    smoothing, autocast = settings.label_smoothing, accelerator.autocast
                    loss = total_loss(model, batch, num_tokens, smoothing, terms, autocast)
                    accelerator.backward(loss * accelerator.num_processes)  # gradients are averaged over processes
                since_log.loss += loss.detach()
            accelerator.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            if accelerator.is_main_process and not clock.steps:  # all that the recipe names was read and fits
                start_output(output, recipe, replaced)
            optimizer.step()
            optimizer.zero_grad()
            if averaged is not None:
                averaged.update(unwrapped)
            clock.steps += 1
            progress = clock.progress(accelerator)
            since_log.steps += 1
            since_log.tokens += int(num_tokens)
            done = clock.steps if settings.max_minutes is None else progress * settings.max_minutes
            bar.update(done - bar.n)

            if clock.steps % settings.log_every == 0:
                row = {
                    "step": clock.steps,
                    "minutes": clock.minutes(),
                    "epoch": batches.epochs(),
                    "loss": float(accelerator.reduce(since_log.loss, "sum")) / since_log.steps,
                    "learning_rate": rate,
                    "tokens_per_second": since_log.tokens / clock.seconds_since_log(),
                }
                if not math.isfinite(row["loss"]):
                    raise _diverged(f"the loss is {row['loss']}", clock)
                if accelerator.is_main_process:
                    write_row(log, row)
                accelerator.log({name: row[name] for name in row if name != "step"}, step=clock.steps)
                bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tokens/s")
                since_log.reset()

            # The last evaluation comes at the end, the others evenly before it.
            is_evaluated = progress >= (best.evaluations + 1) / settings.evaluations
            if is_evaluated:
                best.evaluations = max(best.evaluations + 1, math.floor(progress * settings.evaluations))
                minutes = clock.minutes()
                with clock.paused():
                    candidate: Any = unwrapped if averaged is None else averaged.model
                    if not all(parameter.isfinite().all() for parameter in candidate.parameters()):
                        raise _diverged("the weights are not finite", clock)
                    save = functools.partial(_save, candidate, tokenizer, recipe)
                    if accelerator.is_main_process:  # first: an evaluation may fail
                        save(output / "last")
                        if settings.keep_evaluated:
                            save(checkpoint_folder(output / "evaluated", clock.steps))
                            rotate(output / "evaluated", settings.keep_evaluated)
                    scores = _evaluate(candidate, tokenizer, task, settings, accelerator)
                    if accelerator.is_main_process:
                        write_row(log, {"step": clock.steps, "minutes": minutes, "validation": scores})
                    accelerator.log({f"validation_{name}": value for name, value in scores.items()}, step=clock.steps)
                    bar.write(f"step {clock.steps}, {minutes:.1f} minutes: validation {describe(task, scores)}")
                    figures = {"steps": clock.steps, "minutes": minutes, "validation": scores}
                    is_best = best.update(scores[task.metric], figures, clock.steps <= settings.warmup_steps)
                    if is_best and accelerator.is_main_process:
                        save(output / "best", task, run | figures)
                    accelerator.wait_for_everyone()
                if best.is_out_of_patience(settings.patience):
                    bar.write(f"no better evaluation in {best.evaluations_since}; stopping early")
                    progress = 1.0
            if is_evaluated or signum or clock.steps % settings.checkpoint_every == 0:
                with clock.paused():
                    state.save(output, settings.keep_checkpoints)
            if signum and progress < 1:
                bar.close()
                del model
                _end(accelerator)
                raise StoppedError(max(received, default=int(signal.SIGTERM)), clock.steps)
        bar.close()

    run |= best.figures | {"total_steps": clock.steps, "total_minutes": clock.minutes()}
    if accelerator.is_main_process:
        write_atomically(output / "run.json", json.dumps(run, indent=2) + "\n")
        print(f"best: validation {describe(task, run['validation'])} after {run['steps']} steps, in {output / 'best'}")
    del model
    _end(accelerator)
    return run


def train_once(recipe: Recipe, task: Task, output: Path) -> dict[str, Any]:
    """Train, or resume an interrupted run, unless ``output`` holds a finished run of this recipe. Return ``run.json``.

    A run of this recipe that was interrupted before its first checkpoint starts again.

    Raises:
        ValueError: what is in ``output`` is of another recipe, or a part of a run without its recipe.
    """
    own = output / "recipe.yaml"
    if not (output / "run.json").is_file():  # written at the end of a training
        print(f"\n{output.name}:")
        is_own = bool(contents(output)) and own.is_file() and not differences(load_recipe(own), recipe)
        return train(recipe, task, output, resume=bool(checkpoints(output)), overwrite=is_own)
    if changed := differences(load_recipe(own), recipe):
        raise ValueError(
            f"{output} was trained from another recipe, which differs in {', '.join(changed)}; remove it, or keep the "
            "new models elsewhere"
        )
    return read_run(output)


def _room_needed(task: Task, config: PreTrainedConfig, settings: Training, is_averaged: bool) -> int:
    """Bytes: the checkpoints with weights, two moments and a moving average, and the Hub repositories."""
    with torch.device("meta"):  # sizes only: the model may not fit in memory
        model = task.auto_class.from_config(config)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    in_checkpoint = 3 + is_averaged
    repositories = 3 + settings.keep_evaluated  # best, last, and the one being written
    return weights * (in_checkpoint * (settings.keep_checkpoints + 1) + repositories)


def _evaluate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, settings: Training, accelerator: Accelerator
) -> dict[str, float]:
    """Scores on the validation split. Each process predicts its own part of the rows."""
    rows = list(range(len(task.splits["validation"])))
    with accelerator.split_between_processes(rows) as mine:
        predictions = task.predict(model, tokenizer, "validation", settings.num_beams, rows=mine)
    return task.score("validation", gather_object(predictions))


def _end(accelerator: Accelerator) -> None:
    """Free the model, then close the process group. The caller has dropped its wrapped model.

    In torch 2.13, if DistributedDataParallel holds the last reference to the group, its destructor waits for the
    group's thread with the GIL held. That thread may need the GIL to free a tensor: a deadlock.
    """
    accelerator.free_memory()
    gc.collect()  # free_memory collects garbage before it drops its own reference
    accelerator.end_training()


def _diverged(what: str, clock: Clock) -> FloatingPointError:
    return FloatingPointError(f"{what} at step {clock.steps}; lower training.learning_rate")


def _mixed_precision(settings: Training) -> str:
    if settings.precision == "auto":
        if torch.cuda.is_available():
            return "bf16" if torch.cuda.is_bf16_supported() else "no"
        capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every release
        return "bf16" if capabilities.get("amx_bf16") or capabilities.get("avx512_bf16") else "no"
    return "bf16" if settings.precision == "bf16" else "no"


def _precision(accelerator: Accelerator) -> str:
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, folder: Path, *card: Any) -> None:
    """Write a Hub repository; with a card if the task and the run's figures are given."""
    with replacing(folder) as new:
        model.save_pretrained(new)
        save_tokenizer(tokenizer, new)
        save_recipe(without_machine_paths(recipe), new / "recipe.yaml")
        if card:
            write_card(new, folder, recipe, *card)


if __name__ == "__main__":
    main()
