"""Everything before the first step of a training: :func:`setup` makes a :class:`Run`."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, DistributedType, PartialState
from accelerate.state import AcceleratorState
from accelerate.tracking import get_available_trackers
from accelerate.utils import broadcast_object_list, send_to_device, set_seed, str_to_bool
from datasets import IterableDataset
from torch import nn
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.loss import IGNORED
from attnzoo.model_inputs import check_batch

from ..data.text_files import short
from ..recipe import Recipe, Training
from ..tasks.base import Task
from .average import MovingAverage
from .batching import LengthBatchSampler, LengthBatchStream, check_lengths, lengths_of
from .checkpoint import recover, require_room, set_damaged_aside
from .distillation import Teachers
from .guided_alignment import GuidedAlignment
from .loss_terms import LabelLoss, LossTerm
from .progress import Batch, Batches, Best, Clock, SinceLog
from .run_folder import check_output, contents, describe_run, size_of, start_log
from .schedule import make_optimizer
from .starting import Start
from .threads import take_free_processors
from .training_state import TrainingState, processes_and_batches

PREPARING = timedelta(hours=4)  # for which the processes may wait for one that reads and encodes the data
FEWEST = 100  # training examples; from fewer, no task is learned
LONGEST = 512  # tokens to which a tokenizer truncates, on request, if the model has no limit of its own

T = TypeVar("T")


@dataclass
class Run:
    """The parts of a training.

    Attributes:
        recipe, task, output: the arguments of :func:`setup`.
        tokenizer: that of the task, or of the model that the training starts from.
        accelerator: the processes and the precision.
        accumulation_steps: the batches of an optimiser step that each process takes. A run that is resumed by another
            number of processes takes another number, so that a step has as many batches in all as before.
        model: the model as Accelerate prepared it; ``state.model`` is the model inside.
        terms: the terms of the loss.
        state: the content of a checkpoint: model, optimiser, moving average, clock, batches, best evaluation, sums.
        replaced: files and folders of an earlier run, to be deleted at the first step.
        description: the entries of ``run.json`` about the conditions of the run.
    """

    recipe: Recipe
    task: Task
    output: Path
    tokenizer: PreTrainedTokenizerBase
    accelerator: Accelerator
    accumulation_steps: int
    model: nn.Module
    terms: list[LossTerm]
    state: TrainingState
    replaced: list[Path]
    description: dict[str, Any]

    @property
    def log(self) -> Path:
        return self.output / "log.jsonl"


def setup(recipe: Recipe, task: Task, output: Path, resume: bool, overwrite: bool) -> Run:
    """Check the output folder, make every part of the training, and load the checkpoint to resume from.

    An earlier run in the folder is not deleted yet.

    Raises:
        OSError, ValueError: see :func:`attnzoo.training.train.train`.
    """
    settings = recipe.training
    accelerator = _accelerator(settings, output)
    checkpoint = _made_once(lambda: check_output(output, recipe, resume, overwrite), accelerator)
    accumulation_steps = _accumulation_steps(settings, accelerator, checkpoint)
    if settings.max_minutes is not None:  # how many steps it takes depends on the machine anyway
        take_free_processors()
    set_seed(settings.seed)

    start, tokenizer = _start_and_tokenizer(settings, task, checkpoint, accelerator)
    config = recipe.model_config(**task.config_fields(tokenizer))
    if settings.cuda_graphs:
        _require_graphs(settings, accelerator, config)
    is_averaged = bool(settings.ema_decay) or accelerator.distributed_type == DistributedType.FSDP
    replaced = contents(output) if checkpoint is None else []
    if accelerator.is_main_process:
        require_room(output, _room_needed(task, config, settings, is_averaged) - size_of(replaced))
    model = task.auto_class.from_config(config)  # the same on every process; if it is sharded, each keeps a part
    longest = getattr(config, "max_position_embeddings", LONGEST)
    tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
    task.prepare(model, tokenizer)
    if start is not None:
        start.copy_weights(model)
    if accelerator.process_index:
        set_seed(settings.seed, device_specific=True)  # otherwise dropout would be the same on all processes

    collate, guides = _checking(task.collator(tokenizer, model), model), []
    with _main_process_first(accelerator):
        examples = task.training_examples(tokenizer)
        if settings.alignment_links is not None:
            head = settings.alignment_layer, settings.alignment_head, settings.alignment_shift
            guide = GuidedAlignment(settings.alignment_links, settings.alignment_weight, *head)
            examples, collate = guide.add_links(examples, task, tokenizer), guide.collator(collate)
            guides.append(guide)
        batches = _batches(examples, collate, task, tokenizer, settings, accelerator, accumulation_steps)

    optimizer = make_optimizer(model.parameters(), settings)
    averaged = MovingAverage(model, settings.ema_decay, accelerator.device) if is_averaged else None
    model, optimizer = accelerator.prepare(model, optimizer)
    clock, best, since_log = Clock(settings), Best(task.greater_is_better), SinceLog(accelerator.device)
    unwrapped = accelerator.unwrap_model(model)
    terms: list[LossTerm] = [LabelLoss(unwrapped), *guides]
    if settings.teachers:
        roles = task.auto_class, tokenizer, unwrapped
        terms[0] = Teachers(settings.teachers, settings.teachers_share, *roles, accelerator.device)
    given = None if settings.start_from is None else tokenizer
    state = TrainingState(accelerator, unwrapped, optimizer, averaged, clock, batches, best, since_log, given)
    if checkpoint is not None:
        state.load(checkpoint)
    size = "streamed" if isinstance(examples, IterableDataset) else f"{len(examples):,}"
    precision = "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision
    accelerator.print(
        f"{task.name}: {size} training examples, {len(task.splits['validation']):,} for validation; "
        f"{settings.batch_tokens:,} tokens a batch at most; "
        f"model of {sum(p.numel() for p in model.parameters()):,} parameters; {precision}, "
        f"processes: {accelerator.num_processes}, threads of each: {torch.get_num_threads()}"
        + (f"; continuing after step {clock.steps}" if checkpoint is not None else "")
    )
    if settings.max_minutes is not None and settings.min_steps > 1:
        accelerator.print(
            f"the training takes at least {settings.min_steps:,} steps, however long they take; with --set "
            f"training.min_steps=1 it ends after training.max_minutes={settings.max_minutes:g}"
        )
    if resume and checkpoint is None:
        accelerator.print(f"{output} holds no checkpoint; starting from the beginning")
    if not isinstance(examples, IterableDataset) and len(examples) < FEWEST:
        few = f"{len(examples):,} training examples are too few for a model that is right on others; give thousands"
        accelerator.print(f"warning: {few}", file=sys.stderr)
    description = describe_run(settings.seed, precision, accelerator.num_processes)
    made = accelerator, accumulation_steps, model, terms, state
    run = Run(recipe, task, output, tokenizer, *made, replaced, description)
    if settings.tracker:
        _start_tracker(settings, output, accelerator)
    if accelerator.is_main_process and checkpoint is not None:
        set_damaged_aside(output, checkpoint)
        for name in ("best", "last"):
            recover(output / name)
        start_log(run.log, clock.steps)
    return run


def _accelerator(settings: Training, output: Path) -> Accelerator:
    if settings.tracker and settings.tracker not in map(str, get_available_trackers()):
        package = settings.tracker
        raise ValueError(f"training.tracker={package} needs a package that is missing: pip install {package}")
    is_on_cpu = bool(str_to_bool(os.environ.get("ACCELERATE_USE_CPU", "no")))
    # `accelerate launch --cpu --num_processes 2` sets an address for two processes, and starts one.
    is_launched = {"ACCELERATE_DYNAMO_BACKEND", "MASTER_ADDR"} <= os.environ.keys()
    if is_on_cpu and is_launched and "WORLD_SIZE" not in os.environ:
        raise ValueError(
            "accelerate launch starts only one process on CPUs; for several call ACCELERATE_USE_CPU=1 torchrun "
            "--nproc_per_node 2 -m attnzoo.training.train ..."
        )
    precision = _mixed_precision(settings.precision, PartialState(cpu=is_on_cpu, timeout=PREPARING).device.type)
    AcceleratorState._reset_state()  # Accelerate has one precision for a process, which may train several recipes
    accelerator = Accelerator(mixed_precision=precision, log_with=settings.tracker, project_dir=output)
    if int(os.environ.get("WORLD_SIZE", 1)) > accelerator.num_processes:
        raise ValueError(
            f"{os.environ['WORLD_SIZE']} processes were started, and each would train alone, in one folder; on CPUs "
            "call torchrun with ACCELERATE_USE_CPU=1"
        )
    return accelerator


def _made_once(make: Callable[[], T], accelerator: Accelerator) -> T:
    """What ``make`` returns on the main process, on all; an error that it raises there is raised on all."""
    made: list[Any] = [None, None]
    if accelerator.is_main_process:
        try:
            made[0] = make()
        except (OSError, ValueError) as error:
            made[1] = error
    value, refusal = broadcast_object_list(made)
    if refusal is not None:
        raise refusal
    return value


@contextlib.contextmanager
def _main_process_first(accelerator: Accelerator) -> Iterator[None]:
    """The main process of a machine does the block first; then the others, which find its results in the cache.

    With an error, too, it lets the others begin: they have the same error.
    """
    if not accelerator.is_local_main_process:
        accelerator.wait_for_everyone()
    try:
        yield
    finally:
        if accelerator.is_local_main_process:
            accelerator.wait_for_everyone()


def _mixed_precision(precision: str, device: str) -> str:
    """Accelerate's name for the precision of a recipe on this type of device.

    "auto" is bf16 where the processor multiplies in bf16, fp16 with scaled losses on other GPUs of NVIDIA and AMD, and
    otherwise fp32. A GPU without bf16 emulates it, slowly.
    """
    if precision != "auto":
        return "no" if precision == "fp32" else precision
    if device == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if device != "cpu":
        return "no"
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every release
    return "bf16" if capabilities.get("amx_bf16") or capabilities.get("avx512_bf16") else "no"


def _require_graphs(settings: Training, accelerator: Accelerator, config: PreTrainedConfig) -> None:
    """Raise a ValueError where ``training.cuda_graphs`` does not work."""
    reasons = {
        f"a CUDA device, got {accelerator.device.type}": accelerator.device.type != "cuda",
        f"one process without sharding, got {accelerator.distributed_type.value} of {accelerator.num_processes}": (
            accelerator.distributed_type != DistributedType.NO
        ),
        "an encoder-decoder": not config.is_encoder_decoder,
        "a training without teachers": bool(settings.teachers),
        "a training without alignment_links": settings.alignment_links is not None,
        "precision bf16 or fp32, not fp16": accelerator.scaler is not None,
    }
    for needed, is_missing in reasons.items():
        if is_missing:
            raise ValueError(f"training.cuda_graphs needs {needed}; set it to false")


def _accumulation_steps(settings: Training, accelerator: Accelerator, checkpoint: Path | None) -> int:
    """The batches of an optimiser step that each process takes: those of the recipe, or its share of the checkpoint's.

    Raises:
        ValueError: the processes cannot share the batches of a step evenly.
    """
    processes = accelerator.num_processes
    if checkpoint is None:
        return settings.accumulation_steps
    written_by, batches = processes_and_batches(checkpoint)
    if batches % processes:
        fitting = ", ".join(str(count) for count in range(1, batches + 1) if batches % count == 0)
        raise ValueError(
            f"a step of {checkpoint} has batches: {batches}, which {processes} processes cannot share evenly; the "
            f"number of processes can be {fitting}. A training started with --set "
            f"training.accumulation_steps={processes} can be resumed by {processes} processes"
        )
    if written_by != processes:
        accelerator.print(
            f"{checkpoint.name}: the number of processes was {written_by} and is {processes}; each takes "
            f"{batches // processes} of the {batches} batches of a step. Dropout draws other random numbers from here"
        )
    return batches // processes


def _start_and_tokenizer(
    settings: Training, task: Task, checkpoint: Path | None, accelerator: Accelerator
) -> tuple[Start | None, PreTrainedTokenizerBase]:
    """The model whose weights must still be copied, if any, and the tokenizer."""
    if settings.start_from is None:
        return None, _made_once(task.make_tokenizer, accelerator)
    if checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
        # Its weights are there, too.
        return None, AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    start = Start(settings.start_from, task)
    return start, start.tokenizer()


def _room_needed(task: Task, config: PreTrainedConfig, settings: Training, is_averaged: bool) -> int:
    """The bytes of the checkpoints, with weights, two moments and a moving average, and of the Hub repositories."""
    with torch.device("meta"):  # sizes only: the model may not fit in memory
        model: PreTrainedModel = task.auto_class.from_config(config)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    in_checkpoint = 3 + is_averaged
    repositories = 3 + settings.keep_evaluated  # best, last, and the one that is being written
    return weights * (in_checkpoint * (settings.keep_checkpoints + 1) + repositories)


def _batches(
    examples: Any,
    collate: Any,
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    settings: Training,
    accelerator: Accelerator,
    accumulation_steps: int,
) -> Batches:
    """The batches of the training examples.

    Raises:
        ValueError: an example of any split is longer than a batch, or there are too few training examples.
    """
    batches_per_step = accelerator.num_processes * accumulation_steps
    batching = settings.batch_tokens, settings.seed, batches_per_step
    is_streamed = isinstance(examples, IterableDataset)

    def describe(example: dict[str, Any]) -> str:
        return short(repr(tokenizer.decode(example["input_ids"], skip_special_tokens=True)))

    def load(batch: list[Any]) -> Batch:
        inputs = collate(batch if is_streamed else examples.__getitems__(batch))
        num_labels = int((inputs["labels"] != IGNORED).sum())  # here, where no device is waited for
        # The host collates while a GPU still computes the last step. A copy from pinned memory does not wait for that.
        is_pinned = accelerator.device.type == "cuda"
        if is_pinned:
            inputs = {name: tensor.pin_memory() for name, tensor in inputs.items()}
        return Batch(send_to_device(inputs, accelerator.device, non_blocking=is_pinned), num_labels)

    order: LengthBatchSampler | LengthBatchStream
    if is_streamed:
        encoder = task.training_encoder(tokenizer)

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
            return {name: rows[name] for name in rows if name not in task.columns} | encoder(rows)

        order = LengthBatchStream(task.splits["train"], encode, *batching, describe, task.longest)
    else:
        order = LengthBatchSampler(lengths_of(examples), *batching, lambda row: describe(examples[row]))
    for split in ("validation", "test"):  # before the training: a decoder may take hours for such a row
        check_lengths(task.held_out_examples(tokenizer, split), split, settings.batch_tokens, describe)
    return Batches(order, load, accelerator.process_index, accelerator.num_processes)


def _checking(collate: Callable[[list[Any]], Any], model: PreTrainedModel) -> Callable[[list[Any]], Any]:
    """``collate``, with a check of every batch: here, where no device is waited for."""

    def collate_and_check(rows: list[Any]) -> Any:
        batch = collate(rows)
        check_batch(model, batch)
        return batch

    return collate_and_check


def _start_tracker(settings: Training, output: Path, accelerator: Accelerator) -> None:
    project = settings.tracker if settings.tracker == "tensorboard" else "attnzoo"  # for tensorboard it is a folder
    chosen = {key: value for key, value in vars(settings).items() if isinstance(value, bool | int | float | str)}
    names = {tracker: {"name": output.name} for tracker in ("trackio", "wandb")}
    accelerator.init_trackers(project, chosen, init_kwargs=names)
