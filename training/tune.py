"""Search for a better recipe: ``attnzoo tune demo --minutes 60 --search training.learning_rate=1e-4..1e-2``.

Each trial trains the recipe with other values of the keys that are searched, and is judged by its best evaluation on
the validation split; the test split is not read. The sampler is Optuna's TPE (Bergstra et al., 2011): it prefers values
near those of good trials, after ten trials at random. Without ``--search`` it searches ``training.learning_rate``, from
a quarter to four times the recipe's value, and ``model.dropout``, from 0 to 0.5, if the model has it.

Every trial trains for the steps or minutes of the recipe. To search faster, lower them:
``--set training.max_steps=500``. No trial starts later than ``--minutes`` after the start of the command; the last one
is trained to its end. After Ctrl-C, SIGTERM or a power cut, run the same command again: an interrupted trial resumes
from its last checkpoint, or begins again if it has none. The output folder has:

- ``trials.md``: the table of all trials, the best one first
- ``best.yaml``: the recipe of the best trial, for ``attnzoo train``
- a folder for each trial, as ``attnzoo train`` writes it; of the finished trials only the best one keeps its weights
- ``study.log``: Optuna's journal
"""

import dataclasses
import importlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .commands import add_overrides, command_parser
from .loop.checkpoint import write_atomically
from .loop.run_folder import read_run
from .loop.stopping import exit_on_user_error
from .recipe import Recipe, load_recipe, parsed_value, save_recipe, shipped_recipes
from .tasks import make_task
from .train import train_once

WEIGHTS = ("best", "last", "checkpoints", "evaluated")  # the folders of a trial that hold weights
RATIO = 10  # a range of positive numbers with at least this ratio is searched on a logarithmic scale

Suggest = Callable[[Any], Any]  # from a trial of Optuna to a value


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    example = "demo --minutes 60 --set training.max_steps=500 --search model.dropout=0..0.5"
    parser = command_parser("attnzoo tune", "Search for a better recipe, judged on the validation split.", example)
    parser.add_argument("recipe", help=f"a YAML file, or the name of a shipped recipe: {', '.join(shipped_recipes())}")
    parser.add_argument("--output", type=Path, help="folder for the trials (default: runs/tune_<name of the recipe>)")
    parser.add_argument("--minutes", type=float, default=60, help="start no trial after so many minutes (default: 60)")
    parser.add_argument("--trials", type=int, help="stop after so many finished trials, earlier ones included")
    searched = "what to search: a range (1e-4..1e-2, 1..8) or choices (0.1,0.2); may be repeated"
    parser.add_argument("--search", action="append", default=[], metavar="SECTION.KEY=VALUES", help=searched)
    add_overrides(parser, "change the recipe of all trials")
    options = parser.parse_args(arguments)
    output = options.output or Path("runs") / f"tune_{Path(options.recipe).stem}"
    with exit_on_user_error():
        for name in ("minutes", "trials"):
            if (number := getattr(options, name)) is not None and number <= 0:
                raise ValueError(f"--{name} must be above 0, got {number:g}")
        recipe = load_recipe(options.recipe, options.set)
        space = search_space(options.search or default_search(recipe))
        tune(options.recipe, options.set, space, output, options.minutes, options.trials)


def default_search(recipe: Recipe) -> list[str]:
    """The learning rate, and dropout where the model has it."""
    rate = recipe.training.learning_rate
    found = [f"training.learning_rate={rate / 4:g}..{rate * 4:g}"]
    return [*found, "model.dropout=0..0.5"] if hasattr(recipe.model_config(), "dropout") else found


def search_space(searches: Iterable[str]) -> dict[str, Suggest]:
    """For every key that is searched, a function that lets a trial choose its value.

    Raises:
        ValueError: it is neither a range nor a list of choices; a key is given twice.
    """
    space: dict[str, Suggest] = {}
    for search in searches:
        key, _, values = search.partition("=")
        if key in space:
            raise ValueError(f"--search {key} is given twice")
        if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", key) or not values:
            raise ValueError(f"--search takes section.key=low..high or section.key=one,another, got {search!r}")
        space[key] = _range(search, key, values) if ".." in values else _choices(search, key, values)
    return space


def _range(search: str, key: str, values: str) -> Suggest:
    ends = [parsed_value(text) for text in values.split("..")]
    if len(ends) != 2 or any(type(end) not in (int, float) for end in ends) or not ends[0] < ends[1]:
        raise ValueError(f"--search {search}: a range is two numbers, the lower one first, such as 1e-4..1e-2")
    low, high = ends
    is_log = low > 0 and high / low >= RATIO
    if type(low) is type(high) is int:
        return lambda trial: trial.suggest_int(key, low, high, log=is_log)
    return lambda trial: float(f"{trial.suggest_float(key, low, high, log=is_log):.3g}")


def _choices(search: str, key: str, values: str) -> Suggest:
    choices = [parsed_value(text) for text in values.split(",")]
    if len(choices) < 2:
        raise ValueError(
            f"--search {search}: give a range or at least two values; use --set to give all trials one value"
        )
    return lambda trial: trial.suggest_categorical(key, choices)


def tune(
    recipe: str, overrides: list[str], space: dict[str, Suggest], output: Path, minutes: float, trials: int | None
) -> None:
    """Run trials until the minutes or the number of trials are used up.

    Raises:
        ValueError: Optuna is not installed; the trials in ``output`` are of another recipe, or of a search over other
            keys.
    """
    optuna = _optuna()
    study = _study(optuna, load_recipe(recipe, overrides), space, output)
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):  # the command was interrupted
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        if trial.params.keys() == space.keys():
            study.enqueue_trial(trial.params)
    started = time.monotonic()
    while trials is None or _finished(optuna, study) < trials:
        if time.monotonic() - started > 60 * minutes:
            break
        trial = study.ask()
        values = {key: suggest(trial) for key, suggest in space.items()}
        folder = output / ",".join(f"{key.rpartition('.')[2]}={value}" for key, value in values.items())
        chosen = load_recipe(recipe, [*overrides, *(f"{key}={json.dumps(value)}" for key, value in values.items())])
        task = make_task(chosen)
        trial.set_user_attr("folder", folder.name)
        try:
            score = train_once(chosen, task, folder)["validation"][task.metric]
        except FloatingPointError as error:
            print(f"{folder.name}: {error}")
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        study.tell(trial, score)
        if study.best_trial.number == trial.number:
            save_recipe(chosen, output / "best.yaml")
        _keep_best_weights(study, output)
        table = trial_table(study, list(space), output, f"validation {task.metric_names.get(task.metric, task.metric)}")
        write_atomically(output / "trials.md", table)
    if _finished(optuna, study):
        print(f"\n{(output / 'trials.md').read_text(encoding='utf-8')}\nbest recipe: {output / 'best.yaml'}")


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ModuleNotFoundError as error:
        raise ValueError("attnzoo tune needs Optuna: pip install 'attnzoo[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _study(optuna: Any, recipe: Recipe, space: dict[str, Suggest], output: Path) -> Any:
    """A new study, or the one in ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    journal = optuna.storages.journal
    storage = optuna.storages.JournalStorage(journal.JournalFileBackend(str(output / "study.log")))
    task = make_task(recipe)
    study = optuna.create_study(
        storage=storage,
        study_name="attnzoo",
        load_if_exists=True,
        direction="maximize" if task.greater_is_better else "minimize",
    )
    # Each start has another seed: the sampler's state is not stored, so one seed would repeat its choices.
    study.sampler = optuna.samplers.TPESampler(seed=recipe.training.seed + len(study.trials))
    about = {"recipe": json.loads(json.dumps(dataclasses.asdict(recipe))), "search": sorted(space)}
    for name, value in about.items():
        if study.user_attrs.setdefault(name, value) != value:
            raise ValueError(f"the trials in {output} have another {name}; choose another --output")
        study.set_user_attr(name, value)
    return study


def _finished(optuna: Any, study: Any) -> int:
    return len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE]))


def _keep_best_weights(study: Any, output: Path) -> None:
    """Remove the weights of all finished trials but the best."""
    for trial in study.trials:
        if trial.value is not None and trial.user_attrs["folder"] != study.best_trial.user_attrs["folder"]:
            for name in WEIGHTS:
                shutil.rmtree(output / trial.user_attrs["folder"] / name, ignore_errors=True)


def trial_table(study: Any, keys: list[str], output: Path, metric: str) -> str:
    """The finished trials in Markdown, the best one first."""
    rows = [["trial", *keys, metric, "steps", "minutes"], ["---"] * (len(keys) + 4)]
    sign = 1 if study.direction.name == "MINIMIZE" else -1
    for trial in sorted((t for t in study.trials if t.value is not None), key=lambda t: sign * t.value):
        run = read_run(output / trial.user_attrs["folder"])
        values = [
            f"{trial.params[key]:.3g}" if isinstance(trial.params[key], float) else trial.params[key] for key in keys
        ]
        rows.append([trial.number, *values, f"{trial.value:.2f}", run["total_steps"], f"{run['total_minutes']:.1f}"])
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


if __name__ == "__main__":
    main()
