"""The README: its snippets run, its links lead somewhere, its picture is there."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration

from .benchmarks.run import markdown

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def in_a_folder_with_a_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make demo` leaves behind, with a model that has learned nothing."""
    torch.manual_seed(0)
    tokenizer = GraphemeToPhoneme("cmudict").make_tokenizer()
    sizes = {"embedding_size": 8, "encoder_hidden_size": 8, "decoder_hidden_size": 16, "readout_size": 8}
    config = AttentionalRNNConfig(wiring="luong", score="general", cell="lstm", vocab_size=len(tokenizer), **sizes)
    model = AttentionalRNNForConditionalGeneration(config)
    model.generation_config.max_new_tokens = 5
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "runs" / "demo" / "best")
    (tmp_path / "model_cards").symlink_to(ROOT / "model_cards")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_a_folder_with_a_demo")
def test_snippets_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    printed: dict[str, str] = {}
    for snippet in SNIPPETS:
        with torch.device("meta") if "from_paper" in snippet else contextlib.nullcontext():  # models 1000 wide
            exec(snippet, names)
        printed[snippet] = capsys.readouterr().out

    def output(of: str) -> str:
        return next(text for snippet, text in printed.items() if of in snippet)

    assert len(eval(output('["attention", "bureau", "caterpillar"]'))) == 3
    assert len(eval(output("captioner.generate"))) == 2
    assert [row["label"] for row in eval(output("text-classification"))] == ["positive", "negative"]
    assert output("text-generation").startswith("My fellow Americans, we")
    assert len(eval(output("fill-mask"))) == 5
    assert Path("heads.png").stat().st_size > 1000
    assert Path("sentence.png").stat().st_size > 1000
    assert "anything" in Path("sentence.html").read_text()
    assert names["entailment"].config.sentence_pair
    assert names["rnnsearch"].decoder_hidden_size == 1000
    assert isinstance(names["translator"], AttentionalRNNForConditionalGeneration)
    assert len(output("num_return_sequences=3").splitlines()) == 3
    assert torch.equal(names["whole"][:, : names["first"].sequences.shape[1]], names["first"].sequences)
    assert torch.equal(names["same"], names["best"].sequences[::3])
    assert Path("attention.png").stat().st_size > 1000
    assert "AER" in output("alignment_error_rate")
    assert names["trainer"].state.global_step == 1


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted(ROOT.glob("configs/*.yaml")), *sorted(ROOT.glob("model_cards/*/README.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_nothing_is_left_to_fill_in(path: Path) -> None:
    assert not re.search(r"TODO|TBD|XXX|DEMO_|WHICH_|@[A-Z]+@", path.read_text(encoding="utf-8"))


def test_the_table_of_speeds_is_what_was_measured() -> None:
    """By the command that stands above it."""
    bench = json.loads((ROOT / "docs" / "bench.json").read_text())
    bench["rows"] = [row for row in bench["rows"] if (row["threads"], row["source_length"]) == (1, 32)]
    assert markdown(bench) in README
    assert len(bench["rows"]) >= 18


def test_links_and_pictures_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_the_contents_name_their_sections() -> None:
    headings = re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#([^)]+)\)", README)
    assert len(links) > 10
    assert {*links} <= anchors


def test_every_choice_of_the_config_is_in_the_table() -> None:
    for field in ("wiring", "score", "window", "cell"):
        # of Literal[...] or of Literal[...] | None
        choices = re.findall(r"'(\w+)'", str(AttentionalRNNConfig.__dataclass_fields__[field].type))
        row = next(line for line in README.splitlines() if line.startswith(f"| `{field}`"))
        assert re.findall(r"`(\w+)`", row.split("|")[2]) == choices


@pytest.mark.parametrize("target", ["demo", "test"])
def test_commands_are_in_the_makefile(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
