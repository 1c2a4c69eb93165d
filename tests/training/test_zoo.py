"""Records of the trained models: each follows from the files beside it, and everything else is written from it."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from attnzoo.training.data import licenses
from attnzoo.training.data.cmudict import CMUDICT
from attnzoo.training.data.known import find_known
from attnzoo.training.recipe import load_recipe, save_recipe
from attnzoo.training.record import origins
from attnzoo.training.tasks import TASKS
from attnzoo.training.zoo import SECTION, main, out_of_date
from huggingface_hub import ModelCard, parse_eval_result_entries

from attnzoo.catalogue import list_models, model_info

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"
G2P, SST2 = "attentional-rnn-g2p-cmudict", "self-attentive-sst2"
WRITTEN = ["README.md", "docs/models.md", "pyproject.toml", "model_cards/pyproject.toml", "attnzoo/catalogue.json"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of two models and of all that is written from their records."""
    for name in (G2P, SST2):
        shutil.copytree(CARDS / name, tmp_path / "model_cards" / name)
    for name in WRITTEN:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    main(["--root", str(tmp_path)])
    return tmp_path


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")


def test_everything_in_the_repository_is_what_the_records_say() -> None:
    assert not out_of_date(ROOT), "run python -m attnzoo.training.zoo"


def test_a_model_that_is_not_there_is_in_no_file(repository: Path) -> None:
    for name in WRITTEN:
        text = (repository / name).read_text(encoding="utf-8")
        parts = [found[0] for found in SECTION.finditer(text)] or [text]
        assert not [part for part in parts if re.search("attentional.rnn.g2p.sv", part)], name
        assert re.search("attentional.rnn.g2p.cmudict", text) or name == "model_cards/pyproject.toml"
    assert not out_of_date(repository)


def test_each_fact_is_computed_from_the_files(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a record claims of its files is replaced; ``--check`` names all files that are late."""
    record = repository / "model_cards" / SST2 / "record.json"
    was = record.read_text(encoding="utf-8")
    figures = [figure | {"value": 99.99, "examples": 1} for figure in json.loads(was)["figures"]]
    change(record, sha256="0", bytes=1, parameters=1, dtype="", sources=[], papers=[], commercial=True, figures=figures)
    with pytest.raises(SystemExit, match=f"(?s)out of date.*{SST2}/record.json"):
        main(["--root", str(repository), "--check"])
    main(["--root", str(repository)])
    assert json.loads(record.read_text(encoding="utf-8")) == json.loads(was)
    change(
        record.with_name("run.json"),
        test=json.loads((record.parent / "run.json").read_text())["test"] | {"accuracy": 12.34},
    )
    places = ["README.md", "attnzoo/catalogue.json"]
    places += [f"model_cards/{SST2}/{name}" for name in (".eval_results/sst2.yaml", "README.md", "record.json")]
    assert [path.as_posix() for path in out_of_date(repository)] == places
    main(["--root", str(repository)])
    assert all("12.34" in (repository / place).read_text(encoding="utf-8") for place in places)


def test_a_package_of_models_needs_a_name_alone(repository: Path) -> None:
    """Another folder with a ``pyproject.toml`` is another package; a record may also name the package itself."""
    shutil.move(repository / "model_cards" / SST2, repository / "shelf" / "one-more")
    text = (repository / "model_cards" / "pyproject.toml").read_text().replace('"attnzoo-models"', '"attnzoo-shelf"')
    (repository / "shelf" / "pyproject.toml").write_text(text)
    change(repository / "shelf" / "one-more" / "record.json", name="one-more", package=None)
    main(["--root", str(repository)])
    setuptools = tomllib.loads((repository / "shelf" / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["packages"] == ["attnzoo_shelf.one_more"]
    assert setuptools["package-dir"] == {"attnzoo_shelf.one_more": "one-more"}
    assert (
        tomllib.loads((repository / "model_cards/pyproject.toml").read_text())["tool"]["setuptools"]["packages"] == []
    )
    catalogue = json.loads((repository / "attnzoo/catalogue.json").read_text(encoding="utf-8"))
    assert {model["name"]: model["package"] for model in catalogue["models"]} == {
        G2P: "attnzoo",
        "one-more": "attnzoo-shelf",
    }
    change(repository / "shelf" / "one-more" / "record.json", package="attnzoo-other")
    with pytest.raises(SystemExit, match="names the package 'attnzoo-other'; there are attnzoo, attnzoo-models"):
        main(["--root", str(repository)])


def test_a_name_of_data_is_no_markup_in_a_table(repository: Path) -> None:
    folder = repository / "model_cards" / SST2
    save_recipe(load_recipe(folder / "recipe.yaml", ["task.data.path=a|b <i>.csv"]), folder / "recipe.yaml")
    change(folder / "record.json", data="a|b <i>.csv")
    main(["--root", str(repository)])
    for path in (repository / "README.md", folder / "README.md"):
        assert r"a\|b &lt;i&gt;.csv" in path.read_text(encoding="utf-8")
    assert "| a\\|b &lt;i&gt;.csv |  | not known |" in (folder / "README.md").read_text(encoding="utf-8")


def test_only_models_of_packages_count_and_old_figures_go(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(repository / "model_cards" / SST2, repository / "runs" / "mine")
    assert not out_of_date(repository)
    stale = repository / "model_cards" / SST2 / ".eval_results" / "imdb.yaml"
    stale.touch()
    assert out_of_date(repository) == [stale.relative_to(repository)]
    main(["--root", str(repository)])
    assert not stale.exists()
    (repository / "shelf").mkdir()
    shutil.copy(repository / "model_cards" / "pyproject.toml", repository / "shelf")
    shutil.copytree(repository / "model_cards" / SST2, repository / "shelf" / SST2)
    with pytest.raises(SystemExit, match="have one name"):
        main(["--root", str(repository)])
    (repository / "shelf" / SST2).rename(repository / "shelf" / "other")
    with pytest.raises(SystemExit, match="must have the name of its folder, 'other'"):
        main(["--root", str(repository)])
    shutil.copy(repository / "shelf" / "pyproject.toml", repository / "runs")
    (repository / "runs" / "mine" / "record.json").write_text("{}")
    with pytest.raises(SystemExit, match="it has no valid name, version"):
        main(["--root", str(repository)])


def test_a_file_without_a_place_for_its_part_is_named(repository: Path) -> None:
    (repository / "README.md").write_text("nothing")
    before = (repository / "docs/models.md").read_bytes()
    with pytest.raises(SystemExit, match=r"README\.md must have 1 times a line"):
        main(["--root", str(repository)])
    assert (repository / "docs/models.md").read_bytes() == before


def test_the_origins_are_those_of_all_trainings() -> None:
    names = {name: str(model_info(name)["sources"]) for name in (G2P, SST2)}
    assert "cmudict" in names[G2P]  # the recipe before the last one read a file of more words
    assert "misaki" in names[G2P]
    assert all(part in names[SST2] for part in ("Treebank", "IMDb", "GloVe"))
    recipe = load_recipe(CARDS / G2P / "recipe.yaml")
    recipe.training.start_from = "runs/of_my_own/best"
    assert [origin.name for origin in origins(recipe, CARDS)] == [CMUDICT.sources[0].name, "of_my_own"]


def test_an_own_run_and_anybodys_dataset_have_no_licence_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with the name of a shipped recipe was trained from what its own recipe says."""
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(ROOT / "configs" / "g2p_sv.yaml")
    gruut = [*origins(recipe, tmp_path)]
    for folder in ("runs/g2p_sv/best", str(tmp_path / "runs/g2p_sv/best")):
        shutil.rmtree("runs", ignore_errors=True)
        recipe.training.start_from = "runs/g2p_sv/best"
        assert [*origins(recipe, tmp_path)] == gruut
        recipe.training.start_from = folder
        Path("runs/g2p_sv/best").mkdir(parents=True)
        assert [*origins(recipe, tmp_path)] == [*gruut, licenses.Origin(name="g2p_sv")]
        own = load_recipe(ROOT / "configs" / "g2p_sv.yaml", ["task.data.path=secret.dict"])
        save_recipe(own, Path("runs/g2p_sv/recipe.yaml"))
        assert [*origins(recipe, tmp_path)] == [*gruut, licenses.Origin(name="secret.dict")]
    known = [data for task in TASKS.values() for data in task.known_data]
    for name in ("mr_cr", "debian", "tatoeba_en_de", "multi30k"):
        assert find_known(f"someone/{name}", known) is None
        assert find_known(f"data/{name}", known) == find_known(f"/of/mine/{name}", known) is not None
        Path("someone", name).mkdir(parents=True)
        assert find_known(f"someone/{name}", known) is not None


@pytest.mark.parametrize("name", list_models())
def test_the_hub_reads_the_figures_of_the_record(name: str) -> None:
    """``.eval_results`` as huggingface_hub reads it, and model-index."""
    model, folder = model_info(name), CARDS / name
    tested = {figure["key"]: figure["value"] for figure in model["figures"] if figure["split"] == "test"}
    results = ModelCard.load(folder / "README.md").data.eval_results
    assert [result.metric_value for result in results] == [*tested.values()]
    files = [*folder.glob(".eval_results/*.yaml")]
    assert len(files) == (model["dataset"] is not None)
    for file in files:
        entries = parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
        assert {entry.dataset_id for entry in entries} == {model["dataset"]}
        assert {entry.task_id: entry.value for entry in entries} == tested


def test_no_licence_is_a_riddle() -> None:
    """A licence is one of SPDX, or has its terms quoted and linked on the card; that of all known data, too."""
    known = [data for task in TASKS.values() for data in task.known_data]
    assert all(data.license is not None and data.sources for data in known)
    spdx = [value for value in vars(licenses).values() if isinstance(value, licenses.License)]
    for data in known:
        for license_ in (data.license, *(source.license for source in data.sources)):
            assert license_ in spdx or '"' in license_.terms
    for name in list_models():
        model, card = model_info(name), (CARDS / name / "README.md").read_text(encoding="utf-8")
        allowed = [model["license"], *(source["license"] for source in model["sources"])]
        assert model["commercial"] == all(of_one["commercial"] for of_one in allowed)
        for of_one in allowed:
            assert of_one["terms"] is None or f"]({of_one['url']}): {of_one['terms']}" in card
