"""Search for a better recipe: ``attnzoo tune demo --minutes 60 --search training.learning_rate=1e-4..1e-2``.

Each trial trains a model from the recipe with other values of the keys that are searched. Its result is its best
evaluation on the validation split; the test split is not read. The sampler is Optuna's TPE (Bergstra et al., 2011): it
prefers values near those of good trials, after ten trials at random. Without ``--search`` it searches
``training.learning_rate``, from a quarter to four times the recipe's value, and ``model.dropout``, from 0 to 0.5, if
the model has it.

Every trial trains for the steps or minutes of the recipe. To search faster, lower them:
``--set training.max_steps=500``. No trial starts later than ``--minutes`` after the start of the command; the last one
runs to its end. After Ctrl-C, SIGTERM or a power cut, run the same command again: an interrupted trial resumes from its
last checkpoint, or begins again if it has none. The output folder has:

- ``trials.md``: the table of all trials, the best one first
- ``best.yaml``: the recipe of the best trial, for ``attnzoo train``
- a folder for each trial, as ``attnzoo train`` writes it; only the best one keeps its weights
- ``study.log``: Optuna's journal
"""

import dataclasses
import importlib
import itertools
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from attnzoo.installing import pip_install

from .commands.exits import StoppedError, exit_on_user_error
from .commands.parsers import tune_parser
from .loop.checkpoint import write_atomically
from .recipe import Recipe, load_recipe, make_task, parsed_value
from .train import train_once

JOURNAL = "study.log"
WEIGHTS = ("best", "last", "checkpoints", "evaluated")  # the folders of a trial that hold weights
RATIO = 10  # a range of positive numbers with at least this ratio is searched on a logarithmic scale
FUTILE = 20  # trials in a row that fail or repeat others, after which the search ends

Suggest = Callable[[Any], Any]  # from a trial of Optuna to a value


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = tune_parser().parse_args(arguments)
    output = options.output or Path("runs") / f"tune_{Path(options.recipe).stem}"
    with exit_on_user_error():
        for name in ("minutes", "trials"):
            if (number := getattr(options, name)) is not None and not number > 0:
                raise ValueError(f"--{name} must be above 0, got {number:g}")
        recipe = load_recipe(options.recipe, options.set)
        searches = options.search or default_search(recipe)
        space = search_space(searches)
        for key, (_, examples) in space.items():
            for value in examples:  # a wrong key or value is an error before anything is written
                load_recipe(options.recipe, [*options.set, f"{key}={json.dumps(value)}"])
        about = {"recipe": json.loads(json.dumps(dataclasses.asdict(recipe))), "search": sorted(searches)}
        if output.is_dir() and any(output.iterdir()) and not (output / JOURNAL).is_file():
            raise ValueError(f"{output} holds something other than a search; choose another --output")
        output.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(output / "lock", timeout=0):
                search = Search(recipe, about, output)
                suggestions = {key: suggest for key, (suggest, _) in space.items()}
                search.run(options.recipe, options.set, suggestions, options.minutes, options.trials)
        except Timeout as error:
            raise ValueError(f"another attnzoo tune is running in {output}") from error


def default_search(recipe: Recipe) -> list[str]:
    """The learning rate, and dropout if the model has it."""
    rate = recipe.training.learning_rate
    found = [f"training.learning_rate={rate / 4:g}..{rate * 4:g}"]
    return [*found, "model.dropout=0..0.5"] if hasattr(recipe.model_config(), "dropout") else found


def search_space(searches: Iterable[str]) -> dict[str, tuple[Suggest, list[Any]]]:
    """For every key that is searched, a function by which a trial chooses its value, and the ends of its range or its
    choices.

    Raises:
        ValueError: it is neither a range nor a list of choices; a key is given twice.
    """
    space: dict[str, tuple[Suggest, list[Any]]] = {}
    for search in searches:
        key, _, values = search.partition("=")
        if key in space:
            raise ValueError(f"--search {key} is given twice")
        if not re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", key) or not values:
            raise ValueError(f"--search takes section.key=low..high or section.key=one,another, got {search!r}")
        try:
            is_range = re.fullmatch(r"[^/,]+\.\.[^/,]+", values)
            space[key] = _range(key, values) if is_range else _choices(key, values)
        except ValueError as error:
            raise ValueError(f"--search {search}: {error}") from error
    return space


def _range(key: str, values: str) -> tuple[Suggest, list[Any]]:
    ends = [parsed_value(text) for text in values.split("..")]
    are_numbers = all(type(end) in (int, float) and math.isfinite(end) for end in ends)
    if len(ends) != 2 or not are_numbers or ends[0] >= ends[1]:
        raise ValueError("a range is two numbers, the lower one first, such as 1e-4..1e-2")
    low, high = ends
    is_log = low > 0 and high / low >= RATIO
    if type(low) is type(high) is int:
        return lambda trial: trial.suggest_int(key, low, high, log=is_log), ends
    return lambda trial: trial.suggest_float(key, low, high, log=is_log), ends


def _choices(key: str, values: str) -> tuple[Suggest, list[Any]]:
    choices = [parsed_value(text) for text in values.split(",")]
    if len(choices) < 2:
        raise ValueError("give a range or at least two values; --set gives all trials one value")
    if any(isinstance(choice, list | dict) for choice in choices):
        raise ValueError("a choice is one value, not a list")
    return lambda trial: trial.suggest_categorical(key, choices), choices


class Search:
    """The trials in a folder.

    Args:
        recipe: the recipe of all trials
        about: a description of the recipe and the search; trials of others raise an error
        output: the folder

    Raises:
        ValueError: Optuna is not installed; the trials in ``output`` are of another recipe or search; its journal is
            damaged.
    """

    def __init__(self, recipe: Recipe, about: dict[str, Any], output: Path) -> None:
        try:
            optuna = importlib.import_module("optuna")
        except ModuleNotFoundError as error:
            raise ValueError(f"attnzoo tune needs Optuna: {pip_install('tune')}") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.output, self.states = output, optuna.trial.TrialState
        task = make_task(recipe)
        self.metric = f"validation {task.metric_names.get(task.metric, task.metric)}"
        journal = optuna.storages.journal.JournalFileBackend(str(output / JOURNAL))
        try:
            self.study = optuna.create_study(
                storage=optuna.storages.JournalStorage(journal),
                study_name="attnzoo",
                load_if_exists=True,
                direction="maximize" if task.greater_is_better else "minimize",
            )
        except (ValueError, KeyError) as error:
            raise ValueError(f"{output / JOURNAL} is damaged ({error}); remove it to begin a new search") from error
        for name, value in about.items():
            if self.finished() and self.study.user_attrs[name] != value:
                raise ValueError(f"the trials in {output} have another {name}; choose another --output")
            self.study.set_user_attr(name, value)
        # Each start has another seed: the sampler's state is not stored, so one seed would repeat its choices.
        self.study.sampler = optuna.samplers.TPESampler(seed=recipe.training.seed + len(self.study.trials))

    def finished(self) -> list[Any]:
        """The trials that were measured, the best one first."""
        sign = 1 if self.study.direction.name == "MINIMIZE" else -1
        return sorted(self.study.get_trials(states=[self.states.COMPLETE]), key=lambda trial: sign * trial.value)

    def run(
        self, recipe: str, overrides: list[str], space: dict[str, Suggest], minutes: float, trials: int | None
    ) -> None:
        """Run trials until the minutes or the number of trials are used up, or until no new values are found.

        Raises:
            ValueError: no trial finished.
            StoppedError: a signal stopped the search; the last trial continues at the next start.
        """
        for trial in self.study.get_trials(states=[self.states.RUNNING]):  # the command was interrupted
            self.study.tell(trial.number, state=self.states.FAIL)
            if trial.params.keys() == space.keys() and "folder" in trial.user_attrs:
                self.study.enqueue_trial(trial.params, user_attrs={"folder": trial.user_attrs["folder"]})
        started, futile = time.monotonic(), 0
        self.write_results()  # a command may have ended before it wrote them
        while time.monotonic() - started <= 60 * minutes and (trials is None or len(self.finished()) < trials):
            is_new = self.run_trial(recipe, overrides, space)
            futile = 0 if is_new else futile + 1
            if futile == FUTILE:
                print(f"{FUTILE} trials in a row failed or repeated others, so the search ends")
                break
        if not self.finished():
            raise ValueError("no trial finished; the lines above say why")
        print(f"\n{self.table()}\nbest recipe: {self.output / 'best.yaml'}")

    def run_trial(self, recipe: str, overrides: list[str], space: dict[str, Suggest]) -> bool:
        """Run one trial. Returns whether it finished and does not repeat another one."""
        trial = self.study.ask()
        values = {key: suggest(trial) for key, suggest in space.items()}
        if any(other.params == trial.params for other in self.finished()):
            self.study.tell(trial, state=self.states.PRUNED)
            return False
        name = trial.user_attrs.get("folder", f"trial-{trial.number:03}")
        trial.set_user_attr("folder", name)
        print(f"{name}: {', '.join(f'{key}={value}' for key, value in values.items())}")
        try:
            chosen = load_recipe(recipe, [*overrides, *(f"{key}={json.dumps(value)}" for key, value in values.items())])
            task = make_task(chosen)
            run = train_once(chosen, task, self.output / name)
        except StoppedError:
            raise
        except (ValueError, FloatingPointError) as error:  # training fails with these values
            print(f"{name}: {error}")
            self.study.tell(trial, state=self.states.FAIL)
            self.remove_weights(name)
            return False
        except Exception:  # not to be tried again at the next start
            self.study.tell(trial, state=self.states.FAIL)
            raise
        for key in ("total_steps", "total_minutes"):
            trial.set_user_attr(key, run[key])
        self.study.tell(trial, run["validation"][task.metric])
        self.write_results()
        return True

    def write_results(self) -> None:
        """Write the best recipe and the table, and remove the weights of all finished trials except the best."""
        for trial in self.finished()[1:]:
            self.remove_weights(trial.user_attrs["folder"])
        for best in self.finished()[:1]:
            recipe = self.output / best.user_attrs["folder"] / "recipe.yaml"
            write_atomically(self.output / "best.yaml", recipe.read_text(encoding="utf-8"))
            write_atomically(self.output / "trials.md", self.table())

    def remove_weights(self, folder: str) -> None:
        """Remove the folders of weights of a trial."""
        for name in WEIGHTS:
            shutil.rmtree(self.output / folder / name, ignore_errors=True)

    def table(self) -> str:
        """The finished trials in Markdown, the best one first."""
        keys = sorted({*itertools.chain.from_iterable(trial.params for trial in self.finished())})
        rows = [["trial", *keys, self.metric, "steps", "minutes"], ["---"] * (len(keys) + 4)]
        for trial in self.finished():
            about = trial.user_attrs
            values = [f"{value:.3g}" if isinstance(value, float) else value for value in map(trial.params.get, keys)]
            minutes = f"{about['total_minutes']:.1f}"
            rows.append([about["folder"], *values, f"{trial.value:.2f}", about["total_steps"], minutes])
        return "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


if __name__ == "__main__":
    main()
