"""Model cards. A program fills them with the figures of a run; they are never edited by hand.

Training and release write them. After a change of the templates or of a task, ``python -m attnzoo.training.card
model_cards/NAME`` writes the card of a released folder again from its ``run.json``. It reads the data, for the card's
example; the run's folder may be gone.
"""

import functools
import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, PreTrainedConfig

from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.installing import pip_install  # importing attnzoo also registers the Auto classes
from attnzoo.json_files import read_mapping

from .commands.exits import exit_on_user_error
from .data.text_files import short
from .markdown import code, escaped, one_line, with_code
from .recipe import Recipe, Training, hub_id, load_recipe, make_task
from .tasks.base import Task

# The names of our metrics on the Hub and in the evaluate library, if they differ.
HUB_METRICS = {
    "bleu": "sacrebleu",
    "macro_f1": "f1",
    "masked_accuracy": "accuracy",
    "new_words": "recall",
    "matthews": "matthews_correlation",
    **dict.fromkeys(("rouge1", "rouge2", "rougeL"), "rouge"),
}

# The figures that run.json must have, and their types.
FIGURES: dict[str, Any] = {name: int for name in ("steps", "seed", "processes", "threads")}
FIGURES |= {"minutes": float | int, "precision": str, "validation": dict}

# In Jinja: the card, and its sentence about the model.
TEMPLATE, ARCHITECTURE = (Path(__file__).with_name(name) for name in ("card.md", "architecture.md"))


def describe(task: Task, figures: dict[str, float]) -> str:
    """The task's metrics in one line."""
    return ", ".join(f"{name} {figures[key]:.2f}{task.units.get(key, '')}" for key, name in task.metric_names.items())


def decoding_note(figures: dict[str, Any]) -> str:
    """How the predictions were generated, as the end of a sentence; empty if they were not generated."""
    beams = f", beam {figures['num_beams']}" if "num_beams" in figures else ""
    return beams + (f", length penalty {figures['length_penalty']:g}" if "length_penalty" in figures else "")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.card", "Write the card of a released model again.")
    parser.add_argument("folder", type=Path, help="a released model, such as model_cards/NAME")
    add_overrides(parser, "the path to the data")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        path, figures = options.folder / "recipe.yaml", read_figures(options.folder)
        task = make_task(load_recipe(path, options.set))
        write_card(options.folder, options.folder, load_recipe(path), task, figures)


def read_figures(folder: Path) -> dict[str, Any]:
    """The figures in ``run.json`` of a folder.

    Raises:
        FileNotFoundError: the folder has no ``run.json``.
        ValueError: it is damaged, or lacks a figure.
    """
    if not (folder / "run.json").is_file():
        raise FileNotFoundError(
            f"{folder} is not a released model: it has no run.json; `attnzoo release RUN NEW_FOLDER` makes one from a "
            "finished run"
        )
    run = read_mapping(folder / "run.json")
    if missing := [name for name, kind in FIGURES.items() if not isinstance(run.get(name), kind)]:
        raise ValueError(f"{folder / 'run.json'} is damaged: it has no {', '.join(missing)}")
    return run


def write_card(written: Path, folder: Path, recipe: Recipe, task: Task, run: dict[str, Any]) -> None:
    """Write ``README.md`` into a checkpoint that is being written, from its config, its recipe and the run's figures.

    The card's snippet loads ``folder``, where the checkpoint will be. If ``run`` has the figures of the test split
    under "test", the metadata have these, and the card shows the published figures. A "note" in ``run`` is shown too.

    Raises:
        ValueError: a figure that the card shows is of a wrong type or not finite.
    """
    run = _shown_figures(run, task)
    config = AutoConfig.from_pretrained(written, trust_remote_code=False)
    words, name = task.card, one_line(task.name)
    is_released, generates = "test" in run, task.num_beams is not None
    figures = {"validation": run["validation"] | ({"num_beams": recipe.training.num_beams} if generates else {})}
    if is_released:
        figures["test"] = run["test"]
    title = one_line(folder.resolve().name) if is_released else f"{config.model_type.replace('_', '-')} {name}"
    reported = "test" if is_released else "validation"
    leads_out = folder.is_absolute() or folder == Path() or ".." in folder.parts
    shown = folder.resolve().name if leads_out else folder.as_posix()  # a card shows no paths of this machine
    columns = {key: f"{column}{task.units.get(key, '')}" for key, column in task.metric_names.items()}
    # "wer_names" and "wer_without_stress" are the WER of some words, or without some marks.
    metrics = {key: HUB_METRICS.get(key, re.sub("^(per|wer)_.*", r"\1", key)) for key in columns}
    dataset, license_fields = hub_id(recipe), dict[str, Any](words.license)
    # The Hub also accepts a name of these characters in place of an id.
    data_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(recipe.task.data.path).name)
    data = ModelCardData(
        language=words.language,
        datasets=[dataset] if dataset else None,
        **license_fields,
        library_name="transformers",
        pipeline_tag=words.pipeline_tag,
        tags=["attnzoo", "attention", *words.tags],
        metrics=list(dict.fromkeys(metrics.values())),
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=words.pipeline_tag or words.tags[0],
                dataset_type=dataset or data_name,
                dataset_name=name,
                dataset_split=reported,
                metric_type=metrics[key],
                metric_name=column,
                metric_value=round(figures[reported][key], 2),
            )
            for key, column in columns.items()
        ],
    )
    start = (recipe.training.start_from or "").removesuffix("/best")
    text = _template(TEMPLATE).render(
        card_data=data.to_yaml(),
        title=escaped(title),
        architecture=architecture(config),
        install=pip_install("train"),
        evaluation=code(f"attnzoo evaluate {shlex.quote(shown)}"),
        snippet=words.snippet.format(
            folder=json.dumps(shown, ensure_ascii=False)[1:-1], example=json.dumps(words.example, ensure_ascii=False)
        ),
        words=words,
        columns=columns,
        figures=figures,
        generates=generates,
        is_released=is_released,
        pictures=[(name, caption) for name, caption in words.pictures.items() if (written / name).is_file()],
        data=escaped(name),
        dataset=dataset,
        run=run,
        start_from=code(f"--output {start}") if start else "",
        teachers=teachers_note(recipe.training),
        parameters=f"{_number_of_parameters(written / 'model.safetensors') / 1e6:.1f}",
    )
    ModelCard(text).save(written / "README.md")


def _shown_figures(run: dict[str, Any], task: Task) -> dict[str, Any]:
    """The figures of a run, checked, with its texts escaped: ``run.json`` may come from elsewhere."""
    kinds = FIGURES | {"averaged": int, "git_commit": str, "note": str, "test": dict}
    shown = [("", run, {name: kind for name, kind in kinds.items() if run.get(name) is not None})]
    for split in ("validation", "test"):
        if isinstance(of_split := run.get(split), dict):
            numbers = {"examples": int, **dict.fromkeys(task.metric_names, float | int)}
            beams = {name: float | int for name in ("num_beams", "length_penalty") if name in of_split}
            shown.append((f"{split}.", of_split, numbers | beams))
    for place, figures, kinds in shown:
        for name, kind in kinds.items():
            value = figures.get(name)
            is_kind = isinstance(value, kind) and not isinstance(value, bool)
            if not is_kind or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(
                    f"run.json has {place}{name}={short(repr(value))}, which a card cannot show; correct it, or train "
                    "again"
                )
    texts = {name: escaped(value) for name, value in run.items() if isinstance(value, str)}
    return run | texts | ({"note": with_code(run["note"])} if run.get("note") else {})


def _number_of_parameters(path: Path) -> int:
    try:
        with safe_open(path, framework="pt") as weights:
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise OSError(f"{path} is damaged or incomplete: {error}") from error


def architecture(config: PreTrainedConfig) -> str:
    """The sentence about the model and its paper."""
    return " ".join(_template(ARCHITECTURE).render(config=config).split())


def teachers_note(training: Training) -> str:
    """The sentence about a model's teachers; empty if it has none."""
    if not training.teachers:
        return ""
    names = [code(name.removesuffix("/best")) for name in training.teachers]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    when = "as it was" if len(names) == 1 else "as they were"
    share = 100 * training.teachers_share
    return f"{share:g} % of the loss compares the predictions with those of {listed}, {when} before this training."


@functools.cache
def _template(path: Path) -> jinja2.Template:
    """A compiled template; compiling takes longer than rendering."""
    return jinja2.Template(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()


if __name__ == "__main__":
    main()
