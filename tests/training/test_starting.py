"""A training that starts from a trained model."""

import json
import shutil
from pathlib import Path

import pytest
from attnzoo.training.loop.checkpoint import checkpoint_folder
from attnzoo.training.loop.setup import _start_and_tokenizer
from attnzoo.training.recipe import Training
from attnzoo.training.tasks.letter_tokenizer import letter_phoneme_tokenizer, word_normalizer
from attnzoo.training.train import main
from safetensors.torch import load_file
from transformers import AutoTokenizer

from tests.regular_language import SMALL
from tests.training.runs import command_line, overrides

pytestmark = pytest.mark.usefixtures("few_phonemes")


def run(few_words: Path, output: Path, *sets: str) -> Path:
    settings = overrides("training", max_steps=2, learning_rate=1e-9, weight_decay=0.0)
    main(command_line("demo", output, [*SMALL, f"task.data.path={few_words}", *settings, *sets], "--overwrite"))
    return output / "best"


def test_weights_and_tokenizer_are_those_of_the_start_and_another_model_is_refused(
    few_words: Path, tmp_path: Path
) -> None:
    first = run(few_words, tmp_path / "first", "training.seed=7")
    measured = {"confidence_temperature": 1.2, "longest_source": 9, "usual_score": -1.0}  # on the first data
    published = json.loads((first / "config.json").read_text()) | measured | {"auto_map": {}}
    (first / "config.json").write_text(json.dumps(published))
    # Other data, with fewer letters, would give another tokenizer.
    lines = [line for line in few_words.read_text().splitlines() if "b" not in line.split()[0].lower()]
    (tmp_path / "other.dict").write_text("\n".join(lines) + "\n")
    start = f"training.start_from={first}"
    second = run(tmp_path / "other.dict", tmp_path / "second", start, "model.teacher_forcing_ratio=0.9")
    alone = run(tmp_path / "other.dict", tmp_path / "alone")
    vocabularies = [AutoTokenizer.from_pretrained(folder).get_vocab() for folder in (first, second, alone)]
    assert vocabularies[0] == vocabularies[1] != vocabularies[2]
    before, after = (load_file(folder / "model.safetensors") for folder in (first, second))
    assert before.keys() == after.keys()
    for name, weight in before.items():
        assert (weight - after[name]).abs().max() < 1e-6, name
    more = (few_words.read_text(), "zatu Z AA T UW", "zako ZH AA K OW", "tu T UW1")
    (tmp_path / "more.dict").write_text("\n".join(more) + "\n")
    # A field that changes no shape is compared as well; and --overwrite removes nothing before all is checked.
    (tmp_path / "refused" / "best").mkdir(parents=True)
    (tmp_path / "refused" / "best" / "config.json").write_text("{}")
    (tmp_path / "refused" / "run.json").write_text("{}")
    for message, *sets in (
        (r"start_from=.*best would be deleted", f"training.start_from={tmp_path}/refused/best"),
        (r"is not the one .*: score is '\w+' there and 'dot' here", start, "model.score=dot"),
        ("training.start_from: there is no model in 'nowhere'", "training.start_from=nowhere"),
        (r"is not the one .*: embedding_size is \d+ there and 9 here", start, "model.embedding_size=9"),
        (
            r"more.dict: the model of training.start_from does not know the letters 'z' and the phonemes 'UW1' 'ZH', "
            r"as in tu T UW1; leave such words out, .*; --set task.data.stress=drop",
            *(start, f"task.data.path={tmp_path}/more.dict"),
        ),
        ("training.teachers: there is no model in 'nowhere'", "training.teachers=[nowhere]"),
        ("there is no file 'nowhere'", "training.alignment_links=nowhere"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(few_words, tmp_path / "refused", *sets)
        assert {path.name for path in (tmp_path / "refused").rglob("*")} == {"best", "config.json", "run.json"}


def test_a_training_goes_on_without_the_model_that_it_started_from(few_words: Path, tmp_path: Path) -> None:
    first = run(few_words, tmp_path / "first")
    # Other data, with fewer letters: a tokenizer made from it would not fit the weights.
    lines = [line for line in few_words.read_text().splitlines() if "b" not in line.split()[0].lower()]
    (tmp_path / "other.dict").write_text("\n".join(lines) + "\n")
    output, settings = tmp_path / "run", overrides("training", max_steps=4, checkpoint_every=2, start_from=str(first))
    arguments = command_line("demo", output, [*SMALL, f"task.data.path={tmp_path / 'other.dict'}", *settings])
    main(arguments)
    weights = (output / "last" / "model.safetensors").read_bytes()
    for folder in (first, output / "best", output / "last", checkpoint_folder(output, 4)):
        shutil.rmtree(folder)
    (output / "run.json").unlink()
    main([*arguments, "--resume"])
    assert (output / "last" / "model.safetensors").read_bytes() == weights


def test_no_code_that_a_checkpoint_names_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even after a question, which Transformers would ask."""
    letter_phoneme_tokenizer("ab", ["AA"], word_normalizer("nfc")).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del settings["tokenizer_class"]
    settings["auto_map"] = {"AutoTokenizer": [None, "theirs.Theirs"]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    training = Training(max_steps=1, start_from="elsewhere")
    with pytest.raises(ValueError, match="custom code"):
        _start_and_tokenizer(training, None, tmp_path, None)  # type: ignore[arg-type]
    assert not (tmp_path / "was_run").exists()
