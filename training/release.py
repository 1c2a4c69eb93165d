"""Make a finished run small and complete: ``attnzoo release runs/g2p_luong_global model_cards/NAME``.

The folder holds the best model of the run, with its weights in half precision; they load as float32. A model that
generates decodes with beams by default. The model is evaluated on the test split as a user will load it. The card has
these figures, published figures if there are any, and the task's pictures. An absolute path to the data is shortened to
its id on the Hub or its last part. ``run.json`` has all figures, so ``card.py`` can write the card again without the
run. ``record.json`` has all facts about the weights (``record.py``): if they replace others, their version counts up.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from transformers import AutoTokenizer

import attnzoo  # noqa: F401  (registers the models with the Auto classes)
from attnzoo.json_files import read_mapping
from attnzoo.loading import load_trained

from .card import EVAL_RESULTS, decoding_note, describe, write_card
from .commands.exits import exit_on_user_error
from .commands.parsers import release_parser
from .evaluate import decoding_of, evaluate
from .loop.average import average
from .loop.checkpoint import REPOSITORY, replacing, require_model, save_tokenizer
from .recipe import for_other_machines, load_recipe, make_task, save_recipe
from .record import RECORD, read_figures
from .tasks import TASKS


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = release_parser().parse_args(arguments)
    with exit_on_user_error():
        release(
            options.run, options.folder, options.num_beams, options.length_penalty, options.note, options.average_with
        )


def release(
    run: Path,
    folder: Path,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    note: str | None = None,
    average_with: Sequence[Path] = (),
) -> None:
    """Write ``folder`` out of the best checkpoint of ``run``, or out of the mean of its weights and those of others.

    The validation figures are then those of the mean.

    Raises:
        FileNotFoundError: ``run`` has no finished training.
        OSError, ValueError: a file of the run is damaged.
        ValueError: ``num_beams`` or ``length_penalty`` is out of range, or given for a model that does not generate; a
            weight is too large for half precision; ``folder`` holds something other than a release, or is the working
            directory; or a checkpoint of ``average_with`` is of another model, or is ``folder``.
    """
    if run.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ValueError(f"{folder} is a part of the run; choose a folder outside it")
    if folder.resolve() in (other.resolve() for other in average_with):
        raise ValueError(f"{folder} is one of the checkpoints to average, and would be replaced; choose a new folder")
    own = {*REPOSITORY, "run.json", RECORD, EVAL_RESULTS}.union(
        name for task in TASKS.values() for name in task.card.pictures
    )
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    has_their_card = "README.md" in there and "run.json" not in there  # which a release always has
    if folder.exists() and (not folder.is_dir() or not there <= own or has_their_card):
        raise ValueError(f"{folder} holds something other than a release; choose a new folder")
    if folder.resolve() == Path.cwd():
        raise ValueError(f"{folder} is the working directory, which a release would replace; choose a new folder")
    for name in ("run.json", "best"):
        if not (run / name).exists():
            raise FileNotFoundError(f"{run} holds no finished training: it has no {name}")
    if num_beams is not None and num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    require_model(run / "best")
    figures = read_figures(run)
    recipe = load_recipe(run / "recipe.yaml")
    task = make_task(recipe)
    required = {"tokenizer_config.json", *(["generation_config.json"] if task.num_beams is not None else [])}
    for name in sorted(required.union(path.name for path in (run / "best").glob("*.json"))):
        read_mapping(run / "best" / name)  # Transformers ignores a damaged file, and would decode differently
    for other in average_with:
        require_model(other)
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:  # Windows cannot remove a file that is in use
        best = run / "best"
        if average_with:
            best = Path(place) / "mean"
            average([*average_with, run / "best"], best)
            beams = recipe.training.num_beams if task.num_beams is not None else None
            figures |= {"validation": evaluate(best, task, "validation", beams), "averaged": len(average_with) + 1}
        model = load_trained(task.auto_class, best)
    tokenizer = AutoTokenizer.from_pretrained(run / "best", trust_remote_code=False)
    model.half()
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise ValueError(f"{name} has values that half precision cannot hold")
    decoding = decoding_of(task, model, task.num_beams if num_beams is None else num_beams, length_penalty)
    if decoding:
        model.generation_config.update(**decoding)
    with replacing(folder) as new:
        model.save_pretrained(new)
        model.config.dtype = torch.float32  # the dtype in which it is loaded
        model.config.save_pretrained(new)
        # safetensors lets nobody else read the weights; they get the mode of the other files.
        (new / "model.safetensors").chmod((new / "config.json").stat().st_mode)
        for name in ("is_local", "local_files_only"):  # fields about loading on this machine
            tokenizer.init_kwargs.pop(name, None)
        save_tokenizer(tokenizer, new)
        save_recipe(for_other_machines(recipe), new / "recipe.yaml")
        test = evaluate(new, task, "test")  # the model as a user will load it
        if task.card.pictures:
            task.draw(load_trained(task.auto_class, new), tokenizer, new, **decoding)
        figures |= {"test": test} | ({"note": note} if note else {})
        (new / "run.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        write_card(new, folder, recipe, task, figures)
    print(f"{folder}: test {describe(task, test)}{decoding_note(test)}")


if __name__ == "__main__":
    main()
