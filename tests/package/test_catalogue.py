"""The catalogue: what can be asked of the trained models, in Python and by ``attnzoo list``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedConfig

from attnzoo import (
    AttentionalRNNConfig,
    SelfAttentiveConfig,
    SmallTransformerConfig,
    list_models,
    model_info,
    model_path,
)
from attnzoo.catalogue import loading_lines
from attnzoo.cli import main
from tests.package.snippets import run_alone

ROOT = Path(__file__).parents[2]


def test_models_are_found_by_what_they_are() -> None:
    everything = list_models()
    assert sorted(everything, key=lambda name: model_info(name)["bytes"]) == everything
    assert list_models("*g2p*", language="sv") == ["attentional-rnn-g2p-sv", "attentional-rnn-g2p-multilingual"]
    assert list_models("*g2p*", language="hu") == ["attentional-rnn-g2p-multilingual"]
    assert {*list_models(task="translation")} == {*list_models("*-en-de"), *list_models("*-tatoeba-*")}
    for paper in (
        "see2017",
        "see2017-coverage",
        "Pointer-Generator",
        "1704.04368",
        "https://arxiv.org/abs/1704.04368",
        "see et al.",
    ):
        assert {*list_models(paper=paper)} == {*list_models(task="summarization")}
    assert list_models(license="MIT") == list_models("*g2p*", license="mit", max_bytes=2_000_000)
    sold = list_models(license="commercial")
    assert {*list_models(license="not-commercial")} == {*everything} - {*sold}
    assert sold == [name for name in everything if model_info(name)["commercial"]]
    assert not {"self-attentive-sst2", *list_models("*multi30k*")} & {*sold}
    assert list_models("*g2p*", task="translation") == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pattern": "G2P"}, r"no model has a name like pattern='G2P'; .* '\*g2p\*'"),
        ({"task": "g2p"}, "no model has task='g2p'; there are fill-mask, grapheme-to-phoneme"),
        ({"language": "xx"}, "no model has language='xx'; there are aa, acw"),
        ({"license": "GPL-3.0"}, "no model has license='GPL-3.0'; there are Apache-2.0"),
        ({"paper": "luong2015-nonsense"}, "no model follows paper='luong2015-nonsense'"),
        ({"paper": "http"}, "no model follows paper='http'"),
        ({"paper": ""}, "no model follows paper=''"),
    ],
)
def test_a_question_that_no_model_answers_is_an_error(asked: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list_models(**asked)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bahdanau2014", r"AttentionalRNNConfig\.from_paper\('bahdanau2014'\), and the nearest trained model is bah"),
        ("vaswani2017-base", r"the nearest trained model is vaswani2017-tatoeba-en-de"),
        ("lin2017-snli", r"SelfAttentiveConfig\.from_paper\('lin2017-snli'\), .* is self-attentive-sst2"),
        ("see2017-coverage", "the nearest trained model is see2017-coverage-debian"),
        ("devlin2019", "after this paper there are small-transformer-sotu-masked"),
        ("self-attentive-sst", "did you mean self-attentive-sst2"),
        ("gpt2", "choose one of "),
    ],
)
def test_a_name_without_weights_leads_to_the_nearest(name: str, hint: str) -> None:
    for ask in (model_info, model_path):
        with pytest.raises(ValueError, match=f"no trained model is named '{name}'.*{hint}"):
            ask(name)


@pytest.mark.parametrize("config", [AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig])
def test_every_architecture_of_a_paper_has_weights_and_a_nearest_model(config: type[PreTrainedConfig]) -> None:
    for paper in sys.modules[config.__module__].PAPERS:
        assert list_models(paper=paper)
        with pytest.raises(ValueError, match=rf"{config.__name__}\.from_paper.* the nearest trained model is") as error:
            model_info(paper)
        assert model_info(str(error.value).split()[-1])["model_type"] == config.model_type


@pytest.mark.parametrize(
    "asked", [{"pattern": None}, {"task": 5}, {"paper": b"x"}, {"license": ["MIT"]}, {"max_bytes": "1"}], ids=str
)
def test_an_argument_of_another_type_is_named(asked: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(asked))} must be"):
        list_models(**asked)
    with pytest.raises(TypeError, match="name must be str, got None"):
        model_info(None)  # type: ignore[arg-type]


def test_list_and_info_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "--json"])
    assert json.loads(capsys.readouterr().out) == [model_info(name) for name in list_models()]
    main(["list", "--license", "commercial", "--language", "en"])
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == list_models(license="commercial", language="en")
    with pytest.raises(SystemExit, match="no trained model fits all of these options"):
        main(["list", "*g2p*", "--task", "translation"])
    main(["list", "--paper", "Bahdanau et al. 2014", "--max-bytes", "8e6", "--task", "translation"])
    assert "de→en" in capsys.readouterr().out
    main(["list", "sutskever2014-tatoeba-en-de"])
    assert "version 2, in the package attnzoo-shelf (version 1: commit 5cdd83a)" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no trained model is named 'bahdanau2014'"):
        main(["list", "bahdanau2014"])


def test_the_printed_lines_load_a_model_of_every_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, as a reader copies them."""
    smallest = {model_info(name)["pipeline"]: name for name in reversed(list_models())}
    tries = []
    for name in smallest.values():
        main(["list", name])
        *comments, first, second, third = capsys.readouterr().out.splitlines()
        lines = [first, second, third]
        assert all(comment.startswith("# ") for comment in comments)
        assert "\n".join(lines) == loading_lines(model_info(name))
        tries.append("\n".join([*lines, f"print(model({model_info(name)['example']!r}))"]))
    assert run_alone("\n".join(tries), ROOT).count("\n") >= len(smallest)


def test_the_catalogue_needs_neither_torch_nor_transformers() -> None:
    code = "import attnzoo, sys; attnzoo.model_info(attnzoo.list_models()[0]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert not {"torch", "transformers"} & {*done.stdout.split()}
