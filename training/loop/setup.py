"""What a training needs before its first step: :func:`setup` makes a :class:`Run`."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType, PartialState
from accelerate.tracking import get_available_trackers
from accelerate.utils import broadcast_object_list, send_to_device, set_seed, str_to_bool
from datasets import IterableDataset
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..data.text_files import short
from ..recipe import Recipe, Training
from ..tasks.base import Task
from .average import MovingAverage
from .batching import LengthBatchSampler, LengthBatchStream, check_lengths, length_of
from .checkpoint import recover, require_room, set_damaged_aside
from .distillation import Teachers
from .guided_alignment import GuidedAlignment
from .loss_terms import LabelLoss, LossTerm
from .progress import Batches, Best, Clock, SinceLog
from .run_folder import check_output, contents, describe_run, size_of, start_log
from .schedule import make_optimizer
from .starting import Start
from .threads import take_free_processors
from .training_state import TrainingState, processes_and_batches

FEWEST = 100  # training examples; from fewer, no task is learned
LONGEST = 512  # tokens a tokenizer truncates to, on request, if the model has no limit of its own


@dataclass
class Run:
    """The parts of a training.

    Attributes:
        recipe, task, output: the arguments of :func:`setup`.
        tokenizer: of the task, or of the model that the training starts from.
        accelerator: the processes and the precision.
        accumulation_steps: the batches of an optimiser step that each process takes. A run that is resumed by another
            number of processes takes another number, so that a step has as many batches in all as before.
        model: as Accelerate prepared it; ``state.model`` is the model in it.
        terms: of the loss.
        state: what a checkpoint holds: model, optimiser, moving average, clock, batches, best evaluation, sums.
        replaced: files and folders of an earlier run, to be deleted at the first step.
        description: what ``run.json`` says about how the run was made.
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
    checkpoint = check_output(output, recipe, resume, overwrite) if accelerator.is_main_process else None
    [checkpoint] = broadcast_object_list([checkpoint])
    accumulation_steps = _accumulation_steps(settings, accelerator, checkpoint)
    if settings.max_minutes is not None:  # how many steps it takes depends on the machine anyway
        take_free_processors()
    set_seed(settings.seed)

    start, tokenizer = _start_and_tokenizer(settings, task, checkpoint)
    config = recipe.model_config(**task.config_fields(tokenizer))
    is_averaged = bool(settings.ema_decay) or accelerator.distributed_type == DistributedType.FSDP
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

    examples, collate, guides = task.training_examples(tokenizer), task.collator(tokenizer, model), []
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
        f"{accelerator.num_processes} process(es) of {torch.get_num_threads()} threads"
        + (f"; going on after step {clock.steps}" if resume else "")
    )
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
    precision = _mixed_precision(settings.precision, PartialState(cpu=is_on_cpu).device.type)
    accelerator = Accelerator(mixed_precision=precision, log_with=settings.tracker, project_dir=output)
    if int(os.environ.get("WORLD_SIZE", 1)) > accelerator.num_processes:
        raise ValueError(
            f"{os.environ['WORLD_SIZE']} processes were started, and each would train alone, in one folder; on CPUs "
            "call torchrun with ACCELERATE_USE_CPU=1"
        )
    return accelerator


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
            f"{checkpoint} was written by {written_by} process(es) with {batches} batches in a step, which {processes} "
            f"cannot share; resume with one of: {fitting}"
        )
    if written_by != processes:
        accelerator.print(
            f"{written_by} process(es) wrote {checkpoint.name}, and {processes} go on with it: a step keeps its "
            f"{batches} batches, {batches // processes} a process. Dropout draws other random numbers from here"
        )
    return batches // processes


def _start_and_tokenizer(
    settings: Training, task: Task, checkpoint: Path | None
) -> tuple[Start | None, PreTrainedTokenizerBase]:
    """The model whose weights are still to be copied, if any, and the tokenizer."""
    if settings.start_from is None:
        return None, task.make_tokenizer()
    if checkpoint is not None and (checkpoint / "tokenizer.json").is_file():
        return None, AutoTokenizer.from_pretrained(checkpoint)  # its weights are there, too
    start = Start(settings.start_from, task)
    return start, start.tokenizer()


def _room_needed(task: Task, config: PreTrainedConfig, settings: Training, is_averaged: bool) -> int:
    """Bytes: the checkpoints with weights, two moments and a moving average, and the Hub repositories."""
    with torch.device("meta"):  # sizes only: the model may not fit in memory
        model: PreTrainedModel = task.auto_class.from_config(config)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    in_checkpoint = 3 + is_averaged
    repositories = 3 + settings.keep_evaluated  # best, last, and the one being written
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

    def load(batch: list[Any]) -> dict[str, Tensor]:
        rows = batch if is_streamed else examples.__getitems__(batch)
        return send_to_device(collate(rows), accelerator.device)

    order: LengthBatchSampler | LengthBatchStream
    if is_streamed:
        order = LengthBatchStream(examples, *batching, describe, task.longest)
    else:
        order = LengthBatchSampler(list(map(length_of, examples)), *batching, lambda row: describe(examples[row]))
    for split in ("validation", "test"):  # before the training: a decoder may take hours for such a row
        check_lengths(task.held_out_examples(tokenizer, split), split, settings.batch_tokens, describe)
    return Batches(order, load, accelerator.process_index, accelerator.num_processes)


def _start_tracker(settings: Training, output: Path, accelerator: Accelerator) -> None:
    project = settings.tracker if settings.tracker == "tensorboard" else "attnzoo"  # of tensorboard it is a folder
    chosen = {key: value for key, value in vars(settings).items() if isinstance(value, bool | int | float | str)}
    names = {tracker: {"name": output.name} for tracker in ("trackio", "wandb")}
    accelerator.init_trackers(project, chosen, init_kwargs=names)
