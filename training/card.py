"""Model cards. A program writes them from a model's record and the figures of its run; they are never edited by hand.

Training and release write them. After a change of a task's texts, ``python -m attnzoo.training.card model_cards/NAME``
writes the record and the card of a released folder again. It reads the data; the run's folder may be gone. After a
change of the template alone, ``python -m attnzoo.training.zoo`` writes all cards without their data.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import EvalResult, EvalResultEntry, ModelCard, ModelCardData, eval_result_entries_to_yaml
from transformers import AutoConfig

from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.installing import pip_install, pip_install_version  # importing attnzoo also registers the Auto classes

from .architecture import architecture, template
from .commands.exits import exit_on_user_error
from .data.licenses import License
from .markdown import code, escaped, one_line, with_code
from .recipe import Recipe, Training, load_recipe, make_task
from .record import RECORD, make_record, read_figures
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
EVAL_RESULTS = ".eval_results"  # the Hub's folder for figures


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


def write_card(written: Path, folder: Path, recipe: Recipe, task: Task, run: dict[str, Any]) -> None:
    """Write the card into a checkpoint that is being written, and its record if the run has figures of the test split.

    The card's snippet loads ``folder``, where the checkpoint will be.

    Raises:
        ValueError: a figure that the card shows is of a wrong type or not finite.
    """
    if "test" in run:
        write_released(
            written, folder, make_record(written, recipe, task, run, folder.resolve().name, folder), recipe, run
        )
    else:
        name = f"{recipe.model['model_type'].replace('_', '-')} {one_line(task.name)}"
        record = make_record(written, recipe, task, run, name)
        ModelCard(card(written, folder, record, recipe, run)).save(written / "README.md")


def write_released(written: Path, folder: Path, record: dict[str, Any], recipe: Recipe, run: dict[str, Any]) -> None:
    """Write all that a released model says of itself: its record, its card, and its figures in the Hub's form."""
    (written / RECORD).write_text(
        json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    ModelCard(card(written, folder, record, recipe, run)).save(written / "README.md")
    if entries := eval_results(record):
        (written / EVAL_RESULTS).mkdir(exist_ok=True)
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
        (written / EVAL_RESULTS / f"{Path(record['dataset']).name}.yaml").write_text(text, encoding="utf-8")


def eval_results(record: dict[str, Any]) -> list[EvalResultEntry]:
    """The test figures for ``.eval_results``, which names data by their ids on the Hub: none for other data."""
    return [
        EvalResultEntry(
            dataset_id=record["dataset"],
            task_id=figure["key"],
            value=figure["value"],
            notes=", ".join(
                filter(None, (f"{figure['name']} {figure['unit']}".strip(), "test split", figure["decoding"]))
            ),
        )
        for figure in record["figures"]
        if record["dataset"] and figure["split"] == "test"
    ]


def card(written: Path, folder: Path, record: dict[str, Any], recipe: Recipe, run: dict[str, Any]) -> str:
    """The text of a card."""
    is_released = "test" in run
    leads_out = folder.is_absolute() or folder == Path() or ".." in folder.parts
    shown = folder.resolve().name if leads_out else folder.as_posix()  # a card shows no paths of this machine
    is_packaged = record["package"] is not None  # its name is enough, wherever the card is read
    place = f'attnzoo.model_path("{record["name"]}")' if is_packaged else json.dumps(shown, ensure_ascii=False)
    columns, rows = _table(record)
    sentence, _ = architecture(AutoConfig.from_pretrained(written, trust_remote_code=False))
    words = record["card"]
    version = one_line(str(run.get("versions", {}).get("attnzoo", "of an unknown version")))
    start = _run_name(recipe.training.start_from or "")
    texts = {name: escaped(value) for name, value in run.items() if isinstance(value, str)}
    return template("card.md").render(
        card_data=_metadata(record, Path(recipe.task.data.path).name).to_yaml(),
        record=record,
        sources=[
            source | {key: escaped(source[key] or "") for key in ("name", "version")} for source in record["sources"]
        ],
        title=escaped(record["name"]),
        architecture=sentence,
        version=escaped(version),
        install=pip_install("train") if run.get("git_commit") else pip_install_version(version, "train"),
        evaluation=code(record["command"] if is_packaged else f"attnzoo evaluate {shlex.quote(shown)}"),
        snippet=words["snippet"].replace('"{folder}"', place),
        words=words,
        columns=columns,
        rows=rows,
        is_released=is_released,
        pictures=[(name, caption) for name, caption in words["pictures"].items() if (written / name).is_file()],
        data=escaped(record["data"]),
        run=run | texts | ({"note": with_code(run["note"])} if run.get("note") else {}),
        start_from=code(f"--output {start}") if start else "",
        teachers=teachers_note(recipe.training),
    )


def _table(record: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """The columns of the table of results, and a row for each split."""
    splits: dict[str, list[dict[str, Any]]] = {}
    for figure in record["figures"]:
        splits.setdefault(figure["split"], []).append(figure)
    columns = [with_unit(figure) for figure in splits["validation"]]
    rows = [
        [split, of_split[0]["examples"], *(f"{figure['value']:.2f}" for figure in of_split), of_split[0]["decoding"]]
        for split, of_split in splits.items()
    ]
    if not record["decodes"]:
        return columns, [row[:-1] for row in rows]
    return [*columns, "decoding"], rows


def with_unit(figure: dict[str, Any]) -> str:
    """The name of a figure with its unit, as the head of a column."""
    return f"{figure['name']} {figure['unit']}".strip()


def _metadata(record: dict[str, Any], data: str) -> ModelCardData:
    """The header of a card; ``data`` is the name of data that are not on the Hub."""
    languages, dataset = record["languages"], record["dataset"]
    license_fields: dict[str, Any] = License(**record["license"]).metadata() if record["license"] else {}
    split = record["figures"][-1]["split"]
    reported = [figure for figure in record["figures"] if figure["split"] == split]
    # "wer_names" and "wer_without_stress" are the WER of some words, or without some marks.
    metrics = {
        figure["key"]: HUB_METRICS.get(figure["key"], re.sub("^(per|wer)_.*", r"\1", figure["key"]))
        for figure in reported
    }
    return ModelCardData(
        language=languages[0] if len(languages) == 1 else languages or None,
        datasets=[dataset] if dataset else None,
        **license_fields,
        library_name="transformers",
        pipeline_tag=record["pipeline_tag"],
        tags=["attnzoo", "attention", *record["tags"]],
        metrics=list(dict.fromkeys(metrics.values())),
        model_name=record["name"],
        eval_results=[
            EvalResult(
                task_type=record["task"],
                # The Hub also accepts a name of these characters in place of an id.
                dataset_type=dataset or re.sub(r"[^A-Za-z0-9_.-]+", "-", data),
                dataset_name=record["data"],
                dataset_split=split,
                metric_type=metrics[figure["key"]],
                metric_name=with_unit(figure),
                metric_value=figure["value"],
            )
            for figure in reported
        ],
    )


def _run_name(folder: str) -> str:
    """The run of a checkpoint folder; of an absolute path only its name, since a card shows no paths of a machine."""
    run = folder.removesuffix("/best")
    return Path(run).name if Path(run).is_absolute() else run


def teachers_note(training: Training) -> str:
    """The sentence about a model's teachers; empty if it has none."""
    if not training.teachers:
        return ""
    names = [code(_run_name(name)) for name in training.teachers]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    when = "as it was" if len(names) == 1 else "as they were"
    share = 100 * training.teachers_share
    return f"{share:g} % of the loss compares the predictions with those of {listed}, {when} before this training."


if __name__ == "__main__":
    main()
