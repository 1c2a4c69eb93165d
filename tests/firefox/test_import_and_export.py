"""``attnzoo import firefox`` and ``attnzoo export --to firefox``: one's folder is the other's model."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

from attnzoo import firefox
from attnzoo.cli import main
from attnzoo.firefox.browser_arithmetic import greedy
from attnzoo.firefox.engine import longest_output
from attnzoo.firefox.marian_files import read_marian, write_bin
from attnzoo.hub.folder_contents import contents
from attnzoo.new_folders import new_folder
from attnzoo.shipped_models import named_folder
from tests.firefox.engines import engine_python
from tests.firefox.models import varied_model
from tests.firefox.test_students import MODEL, VOCABULARY, outputs, sha256, write_student
from tests.firefox.vocabularies import lines

SENTENCES = [line for line in lines() if 20 < len(line) < 60][::80]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sentences.txt").write_text("\n".join(SENTENCES) + "\n\n", encoding="utf-8")
    return write_student(tmp_path / "enhu", sourceLanguage="en", targetLanguage="hu")


def test_a_model_of_firefox_becomes_a_folder_for_the_hub(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "firefox-en-hu"
    main(["import", "firefox", str(folder), str(out)])
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert outputs(model, tokenizer) == outputs(*firefox.load(folder))
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "language:\n- en\n- hu\nlicense: mpl-2.0\n" in card
    assert all(sha256(folder / name) in card for name in (MODEL, VOCABULARY))
    assert {"model.safetensors", "tokenizer.json", "README.md"} <= {*contents(out).sent}
    with pytest.raises(SystemExit, match="is not empty"):
        main(["import", "firefox", str(folder), str(out)])
    with pytest.raises(SystemExit, match=r"no \.bin or \.npz of a model for de-en"):
        main(["import", "firefox", str(folder), str(tmp_path / "other"), "--pair", "de-en"])


@pytest.mark.parametrize("place", [".", "../link"])
def test_an_empty_folder_that_nothing_can_replace_is_filled(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    monkeypatch.chdir(tmp_path / "there")
    with new_folder(place) as part:
        (part / "model").touch()
    assert [path.name for path in Path().iterdir()] == ["model"]


def test_the_licence_is_that_of_the_files(folder: Path, tmp_path: Path) -> None:
    def header(name: str, *options: str) -> str:
        main(["import", "firefox", str(folder), str(tmp_path / name), *options])
        return (tmp_path / name / "README.md").read_text(encoding="utf-8").split("---")[1]

    (folder / "LICENSE").write_text("Attribution-ShareAlike 4.0 International")
    assert "license: other\nlicense_name: see-license\nlicense_link: LICENSE\n" in header("file")
    assert (tmp_path / "file" / "LICENSE").read_text() == (folder / "LICENSE").read_text()
    (folder / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n# A model\n")
    assert "license: cc-by-sa-4.0\n" in header("card")
    assert "license: mit\n" in header("option", "--license", "mit")


def test_a_tuned_model_goes_back_to_firefox(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model: Any
    model, tokenizer = firefox.load(folder)
    model.config.dropout = 0.0
    rows = [dict(tokenizer(text, text_target=text)) for text in SENTENCES]
    arguments = TrainingArguments(
        str(tmp_path / "run"), max_steps=5, learning_rate=1e-3, report_to=[], use_cpu=True, disable_tqdm=True
    )
    Trainer(model, arguments, DataCollatorForSeq2Seq(tokenizer, model), rows).train()
    model.eval()
    before = varied_model().floats("decoder_l1_rnn_W")
    model.save_pretrained(tmp_path / "tuned")
    tokenizer.save_pretrained(tmp_path / "tuned")
    export = ["export", "--to", "firefox", str(tmp_path / "tuned"), str(tmp_path / "out")]
    export += ["--sentences", str(tmp_path / "sentences.txt")]
    capsys.readouterr()
    main([*export, "--weights", "float32"])
    count = len(SENTENCES)
    assert capsys.readouterr().out == f"model and float32\t{count} of {count}\n"
    written = read_marian(tmp_path / "out" / "model.bin")
    assert np.abs(written.floats("decoder_l1_rnn_W") - before).max() > 1e-3
    again, other = firefox.load(tmp_path / "out")
    assert other(SENTENCES)["input_ids"] == tokenizer(SENTENCES)["input_ids"]
    assert all(torch.equal(one, two) for one, two in zip(again.parameters(), model.parameters(), strict=True))
    shutil.rmtree(tmp_path / "out")
    main(export)
    rows_printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert {*rows_printed} == {
        f"model and {name}" for name in ("float32", "int8 in saturating sums", "int8 in exact sums")
    }
    path = tmp_path / "out" / "model.intgemm.alphas.bin"
    assert json.loads((tmp_path / "out" / "metadata.json").read_text())["hash"] == sha256(path)
    assert read_marian(path).is_in_int8


def test_settings_of_generate_do_not_reach_what_the_engine_writes(folder: Path) -> None:
    model, tokenizer = firefox.load(folder)
    sources = tokenizer(SENTENCES[:5])["input_ids"]
    expected = [greedy(model, source) for source in sources]
    for source, tokens in zip(sources, expected, strict=True):
        made = model.generate(torch.tensor([source]), max_new_tokens=longest_output(len(source)))[0, 1:].tolist()
        assert tokens == [token for token in made if token != model.config.eos_token_id]
    model.generation_config.update(
        do_sample=True, temperature=2.0, num_return_sequences=3, return_dict_in_generate=True
    )
    assert [greedy(model, source) for source in sources] == expected


def test_what_firefox_cannot_have_is_refused(folder: Path, tmp_path: Path) -> None:
    main(["import", "firefox", str(folder), str(tmp_path / "model")])
    export = ["export", "--to", "firefox", str(tmp_path / "model"), str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="--sentences is missing"):
        main(export)
    export += ["--sentences", str(tmp_path / "sentences.txt")]
    with pytest.raises(SystemExit, match="weights for Firefox are 'int8' or 'float32', got 'float16'"):
        main([*export, "--weights", "float16"])
    with pytest.raises(SystemExit, match="--check is not for --format firefox"):
        main([*export, "--check"])
    with pytest.raises(SystemExit, match="--sentences is for --format firefox"):
        main([*export, "--format", "onnx"])
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.add_tokens(["<brand>"])
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(SystemExit, match=r"model: the tokenizer has added tokens, .*<brand>"):
        main(export)
    firefox.load(folder)[1].save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"eos_token_id": 5}))
    with pytest.raises(SystemExit, match="eos_token_id must be that of '</s>', 0, got 5"):
        main(export)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    AutoTokenizer.from_pretrained(named_folder("cho2014-tatoeba-en-de")).save_pretrained(tmp_path / "model")
    with pytest.raises(SystemExit, match=r"tokenizer\.json: the tokenizer is BPE; only Unigram"):
        main(export)
    with pytest.raises(SystemExit, match="--engine is for --verify"):
        main(["import", "firefox", str(folder), str(tmp_path / "new"), "--engine", "python"])
    assert not (tmp_path / "out").exists()


def test_an_import_is_verified_by_mozillas_engine(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = engine_python()
    verify = ["--verify", str(tmp_path / "sentences.txt"), "--engine"]
    main(["import", "firefox", str(folder), str(tmp_path / "out"), *verify, str(python)])
    count = len(SENTENCES)
    assert capsys.readouterr().out == f"engine in float32, model in float32\t{count} of {count}\n"
    with pytest.raises(SystemExit, match="nowhere cannot be run"):
        main(["import", "firefox", str(folder), str(tmp_path / "none"), *verify, str(tmp_path / "nowhere")])
    main(["export", "--to", "firefox", str(tmp_path / "out"), str(tmp_path / "int8"), "--sentences", verify[1]])
    capsys.readouterr()
    main(["import", "firefox", str(tmp_path / "int8"), str(tmp_path / "again"), *verify, str(python)])
    printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert printed["engine in float32, model in float32"] == f"{count} of {count}"
    assert len(printed) == 4


def test_an_engine_that_refuses_a_file_is_named(folder: Path, tmp_path: Path) -> None:
    write_bin(folder / MODEL, varied_model())
    command = ["import", "firefox", str(folder), str(tmp_path / "out"), "--verify", str(tmp_path / "sentences.txt")]
    with pytest.raises(SystemExit, match=r"Mozilla's engine cannot be loaded: .*No module named 'fxtranslate'; "):
        main(command)  # this environment has no engine
    assert not (tmp_path / "out").exists()
