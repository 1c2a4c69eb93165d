"""Train every model of the zoo again: ``python -m attnzoo.training.retrain`` or ``make zoo``. It takes hours.

First it looks for the data of every recipe, and lists all that is missing. Then it trains each model from the
``recipe.yaml`` in its folder. Last it releases all models into their folders, with their cards, and writes the tables
and the catalogue of models (``zoo.py``). The confidences of a model are calibrated if those in its folder are, and
``usual_score`` is measured if its folder has it. After an interruption the same command continues: it skips finished
trainings and releases, and resumes an interrupted training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnzoo.commands.parsers import command_parser
from attnzoo.json_files import read_mapping

from .commands.exits import exit_on_user_error
from .data.word_vectors import first_words
from .loop.run_folder import read_run
from .loop.starting import trained_model
from .recipe import Recipe, hub_id, load_recipe, make_task
from .release import release
from .studies.usual_score import measure
from .studies.word_confidence import calibrate
from .tasks.grapheme_to_phoneme import GraphemeToPhoneme
from .train import train_once
from .zoo import write_zoo


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.retrain", __doc__.split("\n")[0])
    parser.add_argument("--cards", type=Path, default=Path("model_cards"), help="(default: %(default)s)")
    parser.add_argument("--runs", type=Path, default=Path("runs/zoo"), help="folder of runs (default: %(default)s)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these folders of --cards (default: all)")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        retrain(options.cards, options.runs, options.models)
        write_zoo(options.cards.parent)


def retrain(cards: Path, runs: Path, names: Sequence[str] | None = None) -> None:
    """Train the models that are not trained yet, then calibrate and release those that are not released yet.

    Args:
        cards: the folders of the models, each with a recipe
        runs: the folder for the trainings
        names: only these folders of ``cards``; None takes all

    Raises:
        FileNotFoundError: data is missing (the message lists all of it), or ``cards`` has no folder of a name. Nothing
            has been trained.
        ValueError: a run in ``runs`` is of another recipe.
        StoppedError: SIGTERM, Ctrl-C or a closed terminal; the last step is saved.
    """
    folders = sorted(path for path in cards.iterdir() if path.is_dir())
    if names:
        if unknown := sorted({*names} - {folder.name for folder in folders}):
            listed = ", ".join(folder.name for folder in folders)
            raise FileNotFoundError(f"{cards} has no model {', '.join(unknown)}; it has {listed}")
        folders = [folder for folder in folders if folder.name in names]
    recipes = {folder: load_recipe(folder / "recipe.yaml") for folder in folders}
    tasks = {repr(recipe.task): recipe for recipe in recipes.values()}  # several models may learn one
    if missing := sorted({f"- {what}" for recipe in tasks.values() for what in missing_data(recipe)}):
        raise FileNotFoundError("\n".join(["data is missing, and nothing was trained:", *missing]))
    for folder, recipe in recipes.items():
        train_once(recipe, make_task(recipe), runs / folder.name)
    for folder in folders:  # after all trainings: a release changes the working tree, and run.json names its state
        run = runs / folder.name
        if not is_released(run, folder):
            config, decoding = (_mapping(folder / name) for name in ("config.json", "generation_config.json"))
            if config.get("confidence_temperature", 1.0) != 1.0:
                task = make_task(recipes[folder])
                assert isinstance(task, GraphemeToPhoneme)  # no other model is calibrated
                calibrate(run / "best", task, decoding.get("num_beams"))
            if "usual_score" in config:
                measure(run / "best", make_task(recipes[folder]))
            # A length penalty that was chosen stays.
            release(run, folder, length_penalty=decoding.get("length_penalty"))


def missing_data(recipe: Recipe) -> list[str]:
    """The missing data and trained models of a recipe, each with what to do."""
    missing = []
    try:
        make_task(recipe)
    except FileNotFoundError as error:
        path = recipe.task.data.path
        command = f"; `hf download --repo-type dataset {path} --local-dir {path}` puts it here"
        missing.append(f"{error}{command if hub_id(recipe) == path else ''}")
    vectors = getattr(recipe.task.data, "word_vectors", None)  # read later than the sentences
    if vectors is not None:
        try:
            first_words(vectors, 1)
        except FileNotFoundError as error:
            missing.append(str(error))
    extra = getattr(recipe.task.data, "extra_words", None)  # read when the training begins
    if extra is not None and not Path(extra).is_file():
        missing.append(f"task.data.extra_words={extra} does not exist")
    training = recipe.training
    for key, folders in (("start_from", [training.start_from]), ("teachers", training.teachers)):
        for folder in folders:
            try:
                if folder is not None:
                    trained_model(key, folder)
            except FileNotFoundError as error:
                missing.append(str(error))
    return missing


def is_released(run: Path, folder: Path) -> bool:
    """Whether the folder has this run's figures; a release adds those of the test split."""
    if not (folder / "run.json").is_file():
        return False
    return read_run(run).items() <= read_run(folder).items()


def _mapping(file: Path) -> dict[str, Any]:
    return read_mapping(file) if file.is_file() else {}


if __name__ == "__main__":
    main()
