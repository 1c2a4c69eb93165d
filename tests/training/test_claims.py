"""The claims: their rules on every kind of data, their experiments in seconds, and the command."""

import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from attnzoo.training.studies.claims import NAMES, command, frame
from attnzoo.training.studies.claims.command import main
from attnzoo.training.studies.claims.frame import (
    FAILS,
    HOLDS,
    ONLY_WHEN,
    UNDECIDED,
    at_least,
    at_most,
    decide,
    load_claim,
    never_above,
    never_below,
)

import attnzoo

FOLDER = Path(__file__).parents[2] / "training" / "studies" / "claims"
CHEAP = ("confident-softmax", "order-is-invisible")  # an identity, and a claim that can be near to failing
# Of every kind: trainings of RNNs and of Transformers, all kinds of shipped models, one layer, a clock.
TELLING = ("long-lag", "dot-is-faster", "one-to-many", "penalty-keeps-hops-apart", "weights-explain", "five-steps")
TELLING += ("heads-are-single-heads", "window-limited-by-hardware")
SHARED = {"__init__", "command", "frame", "small_models", "style", "texts"}


def test_every_file_is_a_claim_and_says_what_it_must() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - SHARED == {name.replace("-", "_") for name in NAMES}
    for name in NAMES:
        claim = load_claim(name)
        assert claim.name == name
        assert re.search(r"\(\d{4}\w?\).*(section|table|figure|appendix)|\(\d{4}\w?\)$", claim.source), claim.source
        for text in (claim.claim, claim.tutorials, claim.of_wording, claim.experiment, claim.rule):
            assert text.endswith("."), (name, text)
        assert re.search(r"\d", claim.rule), (name, "a rule has bounds")


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_tells_data_of_each_kind_apart(name: str) -> None:
    claim = load_claim(name)
    assert {HOLDS, FAILS} <= {*claim.examples} <= {HOLDS, ONLY_WHEN, FAILS}
    assert ("nly when" in claim.rule) == (ONLY_WHEN in claim.examples)
    for kind, measurements in claim.examples.items():
        verdict = claim.judge(json.loads(json.dumps(measurements)))
        assert verdict.kind == kind, verdict
        assert (verdict.margin >= 1) == (kind != FAILS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in TELLING else pytest.mark.slow) for name in NAMES]
)
def test_a_claim_runs_and_is_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([name, "--smoke", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    result = json.loads((tmp_path / f"{name}.json").read_text())
    assert f"verdict     {result['verdict']}  (means nothing" in printed
    assert result["seeds"] == [1, 2, 3]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in result["checks"])
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_an_interval_must_be_on_its_side_of_the_bound() -> None:
    """By hand: the mean of 1 and 3 is 2, and Student's t with one degree of freedom makes 2 -+ 12.7 of it."""
    wide = at_least("wide", [1.0, 3.0], 1.0)
    assert wide.interval == pytest.approx((2, 2 - 12.706, 2 + 12.706), abs=1e-3)
    assert (wide.state, at_most("wide", [1.0, 3.0], 3.0).state) == ("undecided", "undecided")
    met, missed = at_least("a", [2.0, 2.0], 1.0), at_most("b", [2.0, 2.0], 1.0)
    assert (met.state, met.margin, missed.state, missed.margin) == ("met", 2.0, "not met", 0.5)
    assert decide([met]).text == HOLDS
    assert decide([met, wide]).text == UNDECIDED
    assert decide([met, wide], "it is late", [met]).text == "holds when it is late, undecided otherwise"
    assert decide([met, wide, missed]).text == FAILS
    assert decide([met, missed], "it is late", [met]).text == "only when it is late"
    assert decide([met, missed], "it is late", [wide]).text == FAILS
    with pytest.raises(ValueError, match="two values or more, got 1"):
        at_least("one", [1.0], 1.0)
    for check in (at_least, at_most, never_above, never_below):
        with pytest.raises(ValueError, match="not finite: nan"):
            check("a", [1.0, float("nan")], 1.0)


def test_one_case_refutes_what_must_always_be_true() -> None:
    leak = never_above("change", [0.0, 0.0, 0.0, 0.0, 0.5], 1e-10)
    assert (leak.interval, leak.state) == ((0.1, 0.0, 0.5), "not met")
    assert never_below("finite", [1.0, 0.0], 1.0).state == "not met"
    assert never_below("finite", [1.0, 1.0], 1.0).state == never_above("same", [0.0], 1e-10).state == "met"
    for name, changed in (
        ("no-leak", {"causal": [0.0, 0.0, 0.5]}),
        ("one-size-for-any-length", {"size": [[1.0, 0.0]] * 6}),
        ("window-limited-by-hardware", {"finite": {"a": [1.0, 0.0]}}),
        ("mask-before-or-after", {"difference": [[0.0, 0.0]] * 3 + [[0.0, 0.9]] * 4}),
    ):
        claim = load_claim(name)
        assert claim.judge({**claim.examples[HOLDS], **changed}).text != HOLDS, name


def test_the_command_lists_claims_and_refuses_what_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*NAMES]
    refused = {
        "Quadratic-cost": "did you mean 'quadratic-cost'",
        f"--all {NAMES[0]}": "not both",
        "--full": "or give --all",
    }
    for arguments, said in ((line.split(), said) for line, said in refused.items()):
        with pytest.raises(SystemExit):
            main(arguments)
        assert said in capsys.readouterr().err


def test_each_page_has_the_sentence_its_source_and_the_command() -> None:
    for name in NAMES:
        claim = load_claim(name)
        page = (FOLDER.parents[2] / "docs" / "claims" / f"{name}.md").read_text(encoding="utf-8")
        assert f"- **Source**: {claim.source}\n- **In tutorials**: {claim.tutorials}\n" in page
        assert f"\nattnzoo claims {name} --full\n" in page


@pytest.fixture
def two_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (command, frame):
        monkeypatch.setattr(module, "NAMES", CHEAP)


@pytest.mark.usefixtures("two_claims")
def test_all_claims_write_pages_and_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main([CHEAP[0], "--smoke", "--output", str(tmp_path)])
    main(["--all", "--smoke", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert f"{CHEAP[0]}: measured before" in printed
    assert "2 pages" in printed
    index = (tmp_path / "index.md").read_text()
    for name in CHEAP:
        page, result = (tmp_path / f"{name}.md").read_text(), json.loads((tmp_path / f"{name}.json").read_text())
        assert f"**{result['verdict']}**" in page
        assert f"attnzoo claims {name} --smoke" in page
        assert load_claim(name).rule in page
        assert f"[{name}]({name}.md)" in index
        for target in re.findall(r"\]\((\S+)\)", page):
            assert (tmp_path / target).is_file()
    assert "Nearest to failing" in index
    stored = json.loads((tmp_path / f"{CHEAP[0]}.json").read_text()) | {"budget": "full"}
    (tmp_path / f"{CHEAP[0]}.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit, match="has a result of confident-softmax with --full; give --again"):
        main([CHEAP[0], "--smoke", "--output", str(tmp_path)])
    (tmp_path / f"{CHEAP[1]}.json").write_text(json.dumps(result | {"verdict": "of an older rule"}))
    monkeypatch.setattr(command, "draw", lambda *_: None)  # which takes longest
    main(["--all", "--smoke", "--output", str(tmp_path)])  # nothing is run again, and all is judged again
    again = json.loads((tmp_path / f"{CHEAP[1]}.json").read_text())
    assert again == result
    (tmp_path / f"{CHEAP[0]}.json").write_text(json.dumps(stored | {"code": "of an older version"}))
    (tmp_path / f"{CHEAP[0]}.md").write_text("its page")
    capsys.readouterr()
    main(["--all", "--smoke", "--output", str(tmp_path)])
    assert f"not run: {CHEAP[0]}; {tmp_path} has results of a larger budget" in capsys.readouterr().out
    assert (tmp_path / f"{CHEAP[0]}.md").read_text() == "its page"
    assert f"[{CHEAP[0]}]({CHEAP[0]}.md)" in (tmp_path / "index.md").read_text()


@pytest.mark.usefixtures("two_claims")
@pytest.mark.parametrize("damaged", ["", '{"claim": ', '{"verdict": "holds"}', "[]"])
def test_a_damaged_result_is_named_and_can_be_replaced(damaged: str, tmp_path: Path) -> None:
    path = tmp_path / f"{CHEAP[0]}.json"
    path.write_text(damaged)
    for arguments in ([CHEAP[0]], ["--all"]):
        with pytest.raises(SystemExit, match=rf"{re.escape(str(path))} cannot be used: .*; give --again to replace it"):
            main([*arguments, "--smoke", "--output", str(tmp_path)])
    main([CHEAP[0], "--smoke", "--again", "--output", str(tmp_path)])
    assert json.loads(path.read_text())["claim"] == CHEAP[0]
    with pytest.raises(SystemExit, match="File exists"):
        main(["--all", "--smoke", "--output", str(path)])


def test_models_of_equal_size_are() -> None:
    models = load_claim("attention-replaces-recurrence").run.__globals__["MODELS"]
    sizes = [sum(parameter.numel() for parameter in build().parameters()) for build in models.values()]
    assert max(sizes) < 1.03 * min(sizes)


def test_a_result_is_of_the_code_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash covers models and tasks that claims share, but not the code that judges and draws, or comments."""
    source, claim = inspect.getsource, load_claim("long-lag")
    before = command.digest(claim)
    changes = {
        ("small_models", "ROWS, TEST_ROWS, TEST_SEED = 64", "ROWS, TEST_ROWS, TEST_SEED = 32"): True,
        ("long_lag", "LAGS = (5,", "LAGS = (4,"): True,
        ("synthetic", "SYMBOLS = 16", "SYMBOLS = 15"): True,
        ("long_lag", "# ", "# really "): False,
        ("long_lag", '"accuracy"', '"share right"'): False,  # in draw
        ("style", "7.0", "8.0"): False,
        ("frame", '"full", (1, 2', '"full", (3, 2'): True,
        ("frame", "self.interval.low / self.bound", "self.interval.low"): False,
        ("five_steps", "import", "import "): False,
    }
    for (module, old, new), is_needed in changes.items():

        def changed(of: ModuleType, module: str = module, old: str = old, new: str = new) -> str:
            return source(of).replace(old, new) if of.__name__.endswith(module) else source(of)

        monkeypatch.setattr(inspect, "getsource", changed)
        assert (command.digest(claim) != before) == is_needed, (module, old)


def test_a_result_is_of_the_weights_of_the_shipped_models(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("five-steps", "long-lag")  # the second trains its own
    before = [command.digest(load_claim(name)) for name in names]
    monkeypatch.setattr(attnzoo, "model_info", lambda name: {"sha256": "of other weights"})
    assert [command.digest(load_claim(name)) == one for name, one in zip(names, before, strict=True)] == [False, True]


def test_the_pages_of_the_docs_are_of_this_code() -> None:
    for path in (Path(__file__).parents[2] / "docs" / "claims").glob("*.json"):
        result, claim = json.loads(path.read_text()), load_claim(path.stem)
        assert result["code"] == command.digest(claim), f"run {path.stem} again"
        assert result["verdict"] == claim.judge(result["measurements"]).text, "attnzoo claims --all judges it anew"
