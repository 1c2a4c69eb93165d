"""The files that a training deletes from its output folder, and those that it keeps."""

from pathlib import Path

import pytest
from attnzoo.training.loop.run_folder import check_output, contents, start_output
from attnzoo.training.recipe import load_recipe, make_task, save_recipe
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.train import main, train, train_once

from tests.regular_language import SMALL
from tests.training.runs import command_line, overrides

pytestmark = pytest.mark.usefixtures("few_phonemes")
RECIPE = [*SMALL, *overrides("training", max_steps=1)]


def arguments(few_words: Path, output: Path, *more: str) -> list[str]:
    return command_line("demo", output, [*RECIPE, f"task.data.path={few_words}"], *more)


OLD = ["checkpoints/step-00000001/state.json", "evaluated/checkpoints/step-00000001/config.json", "best/README.md"]
OLD += ["last/recipe.yaml", "tensorboard/other/hparams.yml", "log.jsonl", "run.json"]


def write_old(output: Path, *names: str) -> None:
    for name in names:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text("old")


def test_overwrite_deletes_nothing_before_the_first_batch_is_known_to_be_good(few_words: Path, tmp_path: Path) -> None:
    """Whether the model has the guided head is known only after a forward pass."""
    output, task = tmp_path / "run", GraphemeToPhoneme(str(few_words))
    names = [*OLD, "best/.DS_Store"]
    write_old(output, *names, "recipe.yaml")
    (tmp_path / "links").write_text("0-0\n" * len(task.training_examples(task.make_tokenizer())))
    sets = overrides("training", alignment_links=str(tmp_path / "links"), alignment_head=1)
    with pytest.raises(SystemExit, match=r"training\.alignment_head 0 to 0, got -1 and 1"):
        main(arguments(few_words, output, "--overwrite", *(f"--set={value}" for value in sets)))
    assert all((output / name).read_text() == "old" for name in [*names, "recipe.yaml"])
    main(arguments(few_words, output, "--overwrite"))
    assert not [name for name in names if (output / name).is_file() and (output / name).read_text() == "old"]


def test_a_part_of_a_run_is_not_lost_by_starting_another(few_words: Path, tmp_path: Path) -> None:
    """For example ``best`` after its large files were deleted, or ``last`` of a run that was killed early."""
    names = [*OLD[1:6], ".best.old/config.json"]
    recipe = load_recipe("demo", [*RECIPE, f"task.data.path={few_words}"])
    task = make_task(recipe)
    for output, name in ((tmp_path / str(number), name) for number, name in enumerate(names)):
        write_old(output, name)
        part = rf"holds a part of a run \({name.partition('/')[0]}\); --overwrite deletes it"
        for of_once in (part, "was started with another recipe"):  # there is no recipe, or another one
            for begin, message in ((train, part), (train_once, of_once)):
                with pytest.raises(ValueError, match=message):
                    begin(recipe, task, output)
            save_recipe(load_recipe("demo"), output / "recipe.yaml")
        assert (output / name).read_text() == "old"
    output = tmp_path / "all"
    write_old(output, *names, "mine")
    save_recipe(recipe, output / "recipe.yaml")
    train_once(recipe, task, output)
    assert not [name for name in names if (output / name).is_file() and (output / name).read_text() == "old"]
    assert (output / "mine").read_text() == "old"


@pytest.mark.parametrize("flags", [{"overwrite": True}, {"resume": True}], ids=["overwrite", "resume"])
@pytest.mark.parametrize(
    "name",
    [
        "best/notes.txt",
        "last/.mine",
        "best/mine/config.json",
        "checkpoints/mine/model.safetensors",
        "tensorboard/x.png",
        ".best.new/notes.txt",
        ".last.new",
        "checkpoints/step-00000002",
        "checkpoints/.step-00000002.new/notes.txt",
    ],
)
def test_a_file_of_the_users_among_those_of_the_run_is_kept(
    name: str, flags: dict[str, bool], few_words: Path, tmp_path: Path
) -> None:
    recipe = load_recipe("demo", [*RECIPE, f"task.data.path={few_words}"])
    write_old(tmp_path, *OLD[:-1], name)
    save_recipe(recipe, tmp_path / "recipe.yaml")
    with pytest.raises(ValueError, match=rf"{name} is in the way of this training, and no training wrote it; move it"):
        check_output(tmp_path, recipe, **{"resume": False, "overwrite": False} | flags)
    assert all((tmp_path / file).read_text() == "old" for file in [*OLD[:-1], name])


@pytest.mark.parametrize("name", ["best", "checkpoints", "evaluated"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_of_the_users_where_the_run_has_a_folder_is_kept(name: str, overwrite: bool, tmp_path: Path) -> None:
    write_old(tmp_path, name)
    with pytest.raises(ValueError, match=rf"{name} is in the way of this training, and no training wrote it; move it"):
        check_output(tmp_path, load_recipe("demo"), resume=False, overwrite=overwrite)


@pytest.mark.parametrize("flag", ["--overwrite", "--resume"])
def test_a_refused_training_changes_nothing(flag: str, few_words: Path, tmp_path: Path) -> None:
    """Files that a killed training left stay, too: the next training removes them."""
    left = [".best.new/config.json", ".last.old/config.json", "checkpoints/.step-00000002.new/state.json"]
    left += ["checkpoints/.mine/x"]
    write_old(tmp_path, *left, ".writable")
    save_recipe(load_recipe("demo", [*RECIPE, f"task.data.path={few_words}"]), tmp_path / "recipe.yaml")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(SystemExit, match=r"no model in 'nowhere'|differs in training\.teachers"):
        main(arguments(few_words, tmp_path, flag, "--set=training.teachers=[nowhere]"))
    assert before == {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(SystemExit, match="no model in 'nowhere'"):
        main(arguments(few_words, tmp_path / "new" / "run", "--set=training.teachers=[nowhere]"))
    assert not (tmp_path / "new").exists()
    main(arguments(few_words, tmp_path, "--overwrite"))
    assert [name for name in (*left, ".writable") if (tmp_path / name).exists()] == ["checkpoints/.mine/x", ".writable"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_nothing_is_deleted_through_a_linked_folder(overwrite: bool, tmp_path: Path) -> None:
    write_old(tmp_path / "mine", "config.json")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best").symlink_to(tmp_path / ("mine" if overwrite else "empty"))
    with pytest.raises(ValueError, match=r"best is a link, and a training needs a folder there; remove"):
        check_output(tmp_path / "run", load_recipe("demo"), resume=False, overwrite=overwrite)


def test_links_to_checkpoints_are_deleted_and_not_what_they_lead_to(tmp_path: Path) -> None:
    elsewhere, checkpoint = tmp_path / "elsewhere", tmp_path / "run" / "checkpoints" / "step-00000006"
    write_old(elsewhere, "weights")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.symlink_to(elsewhere)
    start_output(tmp_path / "run", load_recipe("demo"), contents(tmp_path / "run"))
    assert not checkpoint.is_symlink()
    assert (elsewhere / "weights").read_text() == "old"


def test_a_teacher_in_the_run_is_refused(few_words: Path, tmp_path: Path) -> None:
    teacher = tmp_path / "run" / "best"
    write_old(teacher, "config.json")
    sets = [*RECIPE, f"task.data.path={few_words}", f"training.teachers=[{teacher}]"]
    recipe = load_recipe("demo", sets)
    with pytest.raises(ValueError, match=r"training\.teachers=.*best would be deleted: it is a part of the run in"):
        train(recipe, make_task(recipe), tmp_path / "run", overwrite=True)


def test_data_in_the_run_are_refused_and_a_text_longer_than_a_file_name_is_none(tmp_path: Path) -> None:
    data = tmp_path / "run" / "best" / "recipe.yaml"  # a name that a run has
    write_old(data.parent, data.name)
    recipe = load_recipe("demo", [*RECIPE, f"task.data.path={data}"])
    with pytest.raises(ValueError, match=r"task\.data\.path=.*recipe\.yaml would be deleted"):
        check_output(tmp_path / "run", recipe, resume=False, overwrite=True)
    long = load_recipe("demo", [*RECIPE, f"task.data.path={'a' * 300}"])
    check_output(tmp_path / "run", long, resume=False, overwrite=True)


@pytest.mark.parametrize(("key", "given"), [("teachers", ["first/best"]), ("start_from", "first/best")])
def test_a_trained_model_beside_the_run_is_not_refused(
    key: str, given: object, few_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--output .`` every other path of the working directory is in the output folder."""
    monkeypatch.chdir(tmp_path)
    main(arguments(few_words, tmp_path / "first"))
    main(arguments(few_words, Path(), *(f"--set={s}" for s in overrides("training", **{key: given}))))
    assert Path("best", "model.safetensors").is_file()
    assert Path("first", "best", "model.safetensors").is_file()


def test_the_users_own_recipe_is_kept(few_words: Path, tmp_path: Path) -> None:
    sets = [*RECIPE, f"task.data.path={few_words}"]
    own = tmp_path / "recipe.yaml"
    save_recipe(load_recipe("demo", sets), own)
    own.write_text(f"# mine\n{own.read_text()}")
    other = load_recipe(own, ["training.max_steps=2"])
    with pytest.raises(ValueError, match=r"holds another recipe\.yaml; --overwrite replaces it"):
        train(other, make_task(other), tmp_path)
    recipe = load_recipe(own)
    train(recipe, make_task(recipe), tmp_path)
    assert own.read_text().startswith("# mine")
