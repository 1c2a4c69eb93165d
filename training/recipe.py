"""Recipes: one YAML file describes a training run, and ``--set section.key=value`` changes a part of it."""

import contextlib
import dataclasses
import difflib
import math
import re
import reprlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from attnzoo import AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig
from attnzoo.encoding import reading_utf8

from .commands.parsers import shipped_recipes
from .data.known import find_known
from .data.sources import is_hub_id
from .tasks import TASKS
from .tasks.base import Task

CONFIGS: dict[str, type[PreTrainedConfig]] = {
    config_class.model_type: config_class
    for config_class in (AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig)
}
FROM_DATA = {"vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"}
FROM_DATA |= {"num_labels", "id2label", "label2id"}
MAX_BYTES = 100_000  # the size of a recipe; those of the zoo have about 2,000
BUDGETS = ("training.max_steps", "training.max_minutes")
# The section training: each range in words and as a test, and its keys.
COUNTS = ["batch_tokens", "accumulation_steps", "evaluations", "num_beams", "log_every", "patience"]
COUNTS += ["checkpoint_every", "keep_checkpoints", "min_steps"]
RANGES: dict[str, tuple[Callable[[float], bool], list[str]]] = {
    "be above 0": (
        lambda value: 0 < value < math.inf,
        ["max_steps", "max_minutes", "learning_rate", "max_grad_norm", "halve_every_epochs", "alignment_weight"],
    ),
    "be at least 1": (lambda value: value >= 1, COUNTS),
    "not be negative": (
        lambda value: 0 <= value < math.inf,
        ["seed", "warmup_steps", "weight_decay", "halve_after_epochs", "keep_evaluated", "alignment_head"],
    ),
    "be above 0 and at most 1": (lambda value: 0 < value <= 1, ["teachers_share"]),
    "be at least 0 and below 1": (lambda value: 0 <= value < 1, ["label_smoothing", "ema_decay"]),
}


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number (YAML 1.1 reads it as a string) and a repeated key is an error.

    Aliases are an error too: with them, a few lines can expand to more than the memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen:
                    message = f"the key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
                seen.add(key.value)
        return mapping


_POWER_OF_TEN = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _POWER_OF_TEN, list("-+0123456789"))


@strict
@dataclass(kw_only=True)
class TaskSection:
    """The task of a training.

    Attributes:
        name: a key of ``attnzoo.training.tasks.TASKS``.
        data: the source of its examples, an object of the task's ``data_class``, a
            ``attnzoo.training.data.sources.Source``.
    """

    name: str
    data: Any


@strict
@dataclass(kw_only=True)
class Training:
    """The settings of a training.

    Attributes:
        seed: seed of the initial weights, the order of the data and dropout.
        start_from: checkpoint folder of a trained model, or the name of a shipped one. The training starts with its
            weights and its tokenizer. The sizes in the section ``model`` and the labels must be those of that model;
            dropout and the penalty may differ.
        max_steps: optimiser steps to take. Give either this or ``max_minutes``.
        max_minutes: minutes to train, without evaluations. The learning rate decays over this time, so a slower machine
            takes fewer steps but also ends with a decayed rate. Use ``max_steps`` for a run that others can repeat
            exactly. Other programs that run on the machine keep their processors: the training takes a thread for each
            processor that is free at its start, unless OMP_NUM_THREADS is set.
        min_steps: with ``max_minutes``, the training continues until it has taken this many steps.
        batch_tokens: the largest number of tokens in a batch: its rows times its longest side.
        accumulation_steps: batches per optimiser step and process. Their loss is averaged over all their target tokens.
        optimizer: "adamw", or the papers' "adam", "adadelta" and "sgd" (see ``training/loop/schedule.py``).
        learning_rate: the highest learning rate; it is reached after ``warmup_steps``.
        warmup_steps: optimiser steps from 0 to the highest learning rate.
        schedule: the learning rate after the warm-up: "cosine" and "linear" fall to 0 at the end of the run,
            "inverse_sqrt" is the schedule of Vaswani et al., "halving" that of Luong et al. and Sutskever et al., and
            "constant" does not change it.
        halve_after_epochs, halve_every_epochs: for "halving": the epochs before the first halving, and between two.
        weight_decay: weight decay of the optimiser.
        max_grad_norm: gradients are clipped to this norm.
        label_smoothing: the part of the target probability that the training loss spreads evenly over all tokens.
        teachers: checkpoint folders of trained models, or names of shipped ones, with the same tokens or classes. The
            training then also learns the mean of their distributions, see
            :class:`attnzoo.training.loop.distillation.Teachers`.
        teachers_share: the part of the loss that compares with the teachers; the rest compares with the labels.
        alignment_links: a file of word links in Pharaoh format, a line for each training example. One head of an
            encoder-decoder then also learns these links, see
            :class:`attnzoo.training.loop.guided_alignment.GuidedAlignment`.
        alignment_weight: the factor of this head's loss.
        alignment_layer, alignment_head: the layer and the number of this head. Negative layers count from the end.
        alignment_shift: 0: the step that predicts a token learns its links; 1: the step that reads it.
        ema_decay: decay of the moving average of the weights; 0 for no average. If there is an average, it is evaluated
            and saved. The decay grows to this value as (1 + steps) / (10 + steps), so that the average forgets the
            first weights.
        precision: "fp32", "bf16", "fp16" with scaled losses (for GPUs without bf16), or "auto": bf16 if the processor
            can multiply in bf16, otherwise fp16 on a GPU and fp32 on a CPU.
        cuda_graphs: replay forward and backward as CUDA graphs, one for each of a few padded shapes of batches, see
            :class:`attnzoo.training.loop.graphs.GraphedStep`. For encoder-decoders on one GPU.
        evaluations: number of evaluations on the validation split, at even intervals; the last one is at the end.
        num_beams: beam width of these evaluations.
        patience: stop after this number of evaluations in a row without an improvement; None never stops early. Those
            of the warm-up do not count, nor those before the first BLEU or ROUGE above 0.
        keep_evaluated: the number of the latest evaluated weights to keep in ``evaluated/``, for ``python -m
            attnzoo.training.loop.average``.
        checkpoint_every: optimiser steps from one checkpoint to the next. After a minute without one, and at every
            evaluation, there is one more.
        keep_checkpoints: the number of the latest checkpoints to keep.
        tracker: a place for the curves in addition to ``log.jsonl``: "tensorboard" writes into the output folder,
            "trackio" into its own folder on this machine, and "wandb" sends them to its service.
        log_every: optimiser steps between two lines of the log.
    """

    seed: int = 1
    start_from: str | None = None
    max_steps: int | None = None
    max_minutes: float | int | None = None
    min_steps: int = 1
    batch_tokens: int = 4096
    accumulation_steps: int = 1
    optimizer: Literal["adamw", "adam", "adadelta", "sgd"] = "adamw"
    learning_rate: float | int = 1e-3
    warmup_steps: int = 100
    schedule: Literal["cosine", "linear", "inverse_sqrt", "halving", "constant"] = "cosine"
    halve_after_epochs: float | int = 5
    halve_every_epochs: float | int = 1
    weight_decay: float | int = 0.01
    max_grad_norm: float | int = 1.0
    label_smoothing: float | int = 0.0
    teachers: list[str] = field(default_factory=list)
    teachers_share: float | int = 0.5
    alignment_links: str | None = None
    alignment_weight: float | int = 0.05
    alignment_layer: int = -1
    alignment_head: int = 0
    alignment_shift: Literal[0, 1] = 0
    ema_decay: float | int = 0.0
    precision: Literal["fp32", "bf16", "fp16", "auto"] = "fp32"
    cuda_graphs: bool = False
    evaluations: int = 1
    num_beams: int = 1
    patience: int | None = None
    keep_evaluated: int = 0
    checkpoint_every: int = 1000
    keep_checkpoints: int = 2
    tracker: Literal["tensorboard", "trackio", "wandb"] | None = None
    log_every: int = 20

    def validate_ranges(self) -> None:
        """Raise a ValueError for a number out of range."""
        if (self.max_steps is None) == (self.max_minutes is None):
            example = "max_steps=1000" if self.max_steps is None else "max_minutes=null"
            raise ValueError(
                f"give either training.max_steps or training.max_minutes, got {self.max_steps} and {self.max_minutes}"
                f"; for example --set training.{example}"
            )
        for rule, (holds, names) in RANGES.items():
            for name in names:
                if (value := getattr(self, name)) is not None and not holds(value):
                    raise ValueError(f"training.{name} must {rule}, got {value}")


@strict
@dataclass(kw_only=True)
class Recipe:
    """A whole recipe.

    Attributes:
        model: ``model_type`` and fields of its config class, without those that come from the data or its tokenizer.
            With ``paper``, all other fields are those of the paper (``from_paper`` of the config class).
        task: the section ``task``.
        training: the section ``training``.
        expected: the figures that this recipe reached, for the reader; not used by the program.
    """

    model: dict[str, Any]
    task: TaskSection
    training: Training
    expected: dict[str, Any] = field(default_factory=dict)

    def model_config(self, **from_data: Any) -> PreTrainedConfig:
        """The model's config, completed with fields that come from the data and its tokenizer."""
        fields = {name: value for name, value in self.model.items() if name not in ("model_type", "paper")}
        config_class: Any = CONFIGS[self.model["model_type"]]
        if "paper" in self.model:
            return config_class.from_paper(self.model["paper"], **fields, **from_data)
        return config_class(**fields, **from_data)


def load_recipe(path: str | Path, overrides: list[str] | None = None) -> Recipe:
    """Read a YAML recipe, a file or the name of a shipped one, and apply ``section.key=value`` overrides.

    An override of one budget, steps or minutes, replaces the other.

    Raises:
        FileNotFoundError: no file or recipe has this name; the message suggests the nearest one.
        ValueError: the file is not YAML, or has an unknown key (the message suggests the nearest one) or a missing or
            wrong value.
    """
    path = Path(path)
    file = path if path.is_file() else _shipped(path)
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {file.stat().st_size:,} bytes, a recipe has at most {MAX_BYTES:,}")
    with reading_utf8(path):
        text = file.read_text(encoding="utf-8")
    try:
        tree = parsed_value(text)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error
    if not isinstance(tree, dict):
        sections = ", ".join(f.name for f in dataclasses.fields(Recipe))
        raise ValueError(f"{path} must hold the sections {sections}, got {reprlib.repr(tree)}")
    given = dict(_override(tree, override) for override in overrides or [])
    for budget, other in (BUDGETS, BUDGETS[::-1]):
        if given.get(budget) is not None and other not in given:
            _override(tree, f"{other}=null")
    try:
        return _parse(tree)
    except (ValueError, TypeError, StrictDataclassError) as error:
        reason = error.__cause__ if isinstance(error, StrictDataclassError) else error  # without the validator's name
        raise ValueError(f"{path}: {reason or error}") from error


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe with every default filled in."""
    path.write_text(yaml.safe_dump(dataclasses.asdict(recipe), sort_keys=False, allow_unicode=True), encoding="utf-8")


def checkpoint_recipe(folder: Path, overrides: list[str] | None = None) -> Recipe:
    """The recipe of a checkpoint folder. In a run's folder it is the run's recipe, with the whole path to the data.

    Raises:
        FileNotFoundError, ValueError: as for :func:`load_recipe`.
    """
    own = load_recipe(folder / "recipe.yaml")
    for parent in folder.resolve().parents[:3]:  # of best/, and of evaluated/checkpoints/step-00001000/
        with contextlib.suppress(FileNotFoundError, ValueError):
            if for_other_machines(load_recipe(parent / "recipe.yaml")) == own:
                return load_recipe(parent / "recipe.yaml", overrides)
    return load_recipe(folder / "recipe.yaml", overrides)


def for_other_machines(recipe: Recipe) -> Recipe:
    """The recipe to publish: the data's absolute path becomes its id on the Hub, or its last part.

    Absolute paths of teachers, of the model to start from and of links become their last parts, too. CUDA graphs are
    off: they change the speed of a training alone, and need a GPU.
    """
    data, training = recipe.task.data, recipe.training
    texts = {name: _relative(value) for name, value in vars(data).items() if isinstance(value, str)}
    if texts["path"] != data.path:
        texts["path"] = hub_id(recipe) or texts["path"]
    paths: dict[str, Any] = {name: _relative(getattr(training, name)) for name in ("start_from", "alignment_links")}
    paths["teachers"] = [*map(_relative, training.teachers)]
    training = dataclasses.replace(training, cuda_graphs=False, **paths)
    data = dataclasses.replace(data, **texts)
    return dataclasses.replace(recipe, task=dataclasses.replace(recipe.task, data=data), training=training)


def _relative(path: Any) -> Any:
    return Path(path).name if path is not None and Path(path).is_absolute() else path


def hub_id(recipe: Recipe) -> str | None:
    """The Hub id of the recipe's data: the path itself, or the id of the known data set that the path is a copy of."""
    path = recipe.task.data.path
    known = find_known(path, TASKS[recipe.task.name].known_data)
    if known is None:
        return path if is_hub_id(path) else None
    if known.hub_id is None:  # "data/debian" has the form of an id
        return None
    return path if is_hub_id(path) else known.hub_id if Path(path).name == Path(known.hub_id).name else None


def make_task(recipe: Recipe, only: str | None = None) -> Task:
    """Make the task of a recipe and read its data; with ``only``, the name of a split, for this split only.

    Raises:
        ValueError: its data cannot be used.
        FileNotFoundError: its data is missing.
    """
    return TASKS[recipe.task.name](recipe.task.data, only)


def _parse(tree: dict[str, Any]) -> Recipe:
    _check_keys(tree, _fields(Recipe), "recipe", required={"model", "task", "training"})
    for section in ("model", "task", "training"):
        if not isinstance(tree[section], dict):
            raise ValueError(f"section {section!r} must be a mapping of keys to values, got {tree[section]!r}")
    model = tree["model"]
    model_type = model.get("model_type")
    if model_type not in CONFIGS:
        raise ValueError(f"model.model_type {model_type!r} is unknown{_nearest(str(model_type), set(CONFIGS))}")
    for key in FROM_DATA & model.keys():
        raise ValueError(f"{key!r} in model comes from the task's data; leave it out")
    # A config class accepts unknown keywords silently; a recipe does not.
    own_keys = {"model_type", "paper"} if hasattr(CONFIGS[model_type], "from_paper") else {"model_type"}
    _check_keys(model, own_keys | _fields(CONFIGS[model_type]), "model")
    task = tree["task"]
    _check_keys(task, _fields(TaskSection), "task", required=_fields(TaskSection))
    if not isinstance(task["data"], dict):
        raise ValueError(f"task.data must be a mapping with 'path', got {task['data']!r}")
    if task["name"] not in TASKS:
        raise ValueError(f"task.name is {task['name']!r}{_nearest(str(task['name']), set(TASKS))}")
    data_class = TASKS[task["name"]].data_class
    _check_keys(task["data"], _fields(data_class), "task.data", required={"path"})
    _check_keys(tree["training"], _fields(Training), "training")
    recipe = Recipe(
        model=model,
        task=TaskSection(name=task["name"], data=data_class(**task["data"])),
        training=Training(**tree["training"]),
        expected=tree.get("expected") or {},
    )
    _check_model(recipe)
    return recipe


def _check_model(recipe: Recipe) -> None:
    """Make the model for the task, without weights. A model that is not for the task raises an error."""
    config = recipe.model_config()
    try:
        with torch.device("meta"):
            TASKS[recipe.task.name].auto_class.from_config(config)
    except ValueError as error:
        reason = str(error).split("\nModel type should be one of")[0]  # of the Auto class, a hundred names
        raise ValueError(f"the section model is not for the task {recipe.task.name!r}: {reason}") from error
    except RuntimeError as error:  # torch cannot represent such sizes
        raise ValueError(f"the section model is too large: {error}") from error


def _shipped(path: Path) -> Path:
    """The shipped recipe of this name."""
    known = shipped_recipes()
    if str(path) in known:
        return known[str(path)]
    close = difflib.get_close_matches(path.stem, known, n=3, cutoff=0.5)
    nearest = f"; did you mean {close[0]!r}?" if close else ""
    files = sorted(str(file) for file in path.parent.glob("*.yaml")) if path.name != str(path) else []
    beside = f"; the same folder has {', '.join(files)}" if files else ""
    names = "".join(f"\n  {name}" for name in [*close, *(name for name in known if name not in close)])
    raise FileNotFoundError(f"no recipe at {path}{nearest}{beside}\nThe recipes of attnzoo:{names}")


def parsed_value(text: str) -> Any:
    """The value of a text in recipes and in ``--set``.

    Raises:
        ValueError: it is not YAML.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def _fields(dataclass_type: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(dataclass_type)}


def _check_keys(section: dict[str, Any], known: set[str], name: str, required: Collection[str] = ()) -> None:
    for key in section:
        if key not in known:
            raise ValueError(f"unknown key {key!r} in {name}{_nearest(str(key), known)}")
    for key in sorted(set(required) - section.keys()):
        raise ValueError(f"{name} lacks the key {key!r}")


def _nearest(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def _override(tree: dict[str, Any], override: str) -> tuple[str, Any]:
    """Change a value in the tree; return its dotted name and new value."""
    dotted, equals, text = override.partition("=")
    if not equals or not dotted:
        raise ValueError(f"--set takes section.key=value, got {override!r}")
    *sections, key = dotted.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise ValueError(f"--set {override}: {section!r} is a value, not a section")
    try:
        is_sign = len(text) == 1 and not text.isalnum() and text != "~"  # some are not YAML values; ~ is null
        tree[key] = text if is_sign else parsed_value(text)
    except ValueError as error:
        raise ValueError(f"--set {dotted}: the value {error}") from error
    return dotted, tree[key]
