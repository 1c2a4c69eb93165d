"""The zoo's index: the README has the cards' figures, and every trained model is in the index."""

import re
import shutil
from pathlib import Path

import pytest
from attnzoo.training.zoo import END, START, index, main, with_index

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_readme_has_the_index_of_the_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert with_index(README, index(Path("model_cards"))) == README, "run python -m attnzoo.training.zoo"


def test_every_folder_has_a_row_with_the_figures_of_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    header, _, *models = rows(index(Path("model_cards")))
    assert header == ["model", "what it does, on which data, after which paper", "MB", "test split"]
    folders = sorted(path for path in CARDS.iterdir() if path.is_dir())
    assert len(models) == len(folders)
    for row, folder in zip(models, folders, strict=True):
        card = (folder / "README.md").read_text(encoding="utf-8")
        name, what, size, figures = row
        assert name == f"[`{folder.name}`](model_cards/{folder.name})"
        papers = re.findall(r"after (\[[^\]]+\]\([^)]+\))", card.split("## Use")[0])
        assert what.split("; ")[-1].split(", ") == papers
        assert float(size) == pytest.approx((folder / "model.safetensors").stat().st_size / 1e6, abs=0.05)
        test = next(line for line in card.splitlines() if line.startswith("| test |"))
        assert re.findall(r"\d+\.\d\d", figures) == re.findall(r"\d+\.\d\d", test)[:2]
        header = next(line for line in card.splitlines() if line.startswith("| split |"))
        columns = [column.strip() for column in header.split("|")[3:] if column.strip() not in ("", "decoding")]
        assert [re.sub(r" \d+\.\d\d", "", figure) for figure in figures.split(", ")] == columns[:2]
        assert "(%)" not in figures  # a unit is said in one way


@pytest.mark.parametrize(
    ("name", "papers"),
    [
        ("small-transformer-sotu-causal", ["Vaswani et al. (2017)", "Radford et al. (2018)"]),
        ("small-transformer-sotu-masked", ["Vaswani et al. (2017)", "Devlin et al. (2019)"]),
        ("small-transformer-multi30k-en-de", ["Vaswani et al. (2017)"]),
    ],
)
def test_a_row_names_every_paper_that_its_model_follows(name: str, papers: list[str]) -> None:
    row = next(line for line in README.splitlines() if line.startswith(f"| [`{name}`]"))
    assert re.findall(r"\[([^\]]+)\]", row.split("|")[2]) == papers


def test_the_command_writes_between_its_marks_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cards = tmp_path / "cards"
    shutil.copytree(CARDS / "attentional-rnn-g2p-cmudict", cards / "one")
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    main(["--cards", str(cards), "--readme", str(readme)])
    text = readme.read_text()
    assert text.startswith(f"before\n{START}\n\n| model |")
    assert text.endswith(f"|\n\n{END}\nafter\n")
    assert "old" not in text
    assert text.count("[`one`]") == 1
    main(["--cards", str(cards), "--readme", str(readme)])
    assert readme.read_text() == text


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("et al. (2015)", "and others", "has no paper; write it with attnzoo.training.release"),
        ("`attnzoo evaluate", "`python -m attnzoo.training.measure", "has no command that made its figures"),
        ("model-index:", "model_index:", "has no results"),
    ],
)
def test_a_card_that_lacks_a_figure_is_named(was: str, becomes: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    shutil.copytree(CARDS / "attentional-rnn-g2p-cmudict", folder)
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace(was, becomes))
    with pytest.raises(ValueError, match=message) as caught:
        index(tmp_path)
    assert str(folder) in str(caught.value)


def test_a_readme_without_a_place_for_it_is_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing")
    with pytest.raises(SystemExit, match="the README has no place for the index"):
        main(["--cards", str(CARDS), "--readme", str(readme)])
    assert readme.read_text() == "nothing"
