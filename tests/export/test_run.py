"""The runner, compared with ``generate()``: beams, samples, texts, its command, and its requirements."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnzoo.alignment import generation_alignments
from attnzoo.export import OnnxModel, to_onnx
from attnzoo.export import run as export_run
from attnzoo.export.recurrent_graph import KNOWN_PARTS
from tests.export.compare import arrays, assert_close, exported
from tests.factory import EVERY_PADDING, TEXTS, TOKENIZER, make_model, padded, refused, tiny_model

GENERATING = [
    "bahdanau-cho_gru-additive",
    "luong-gru-location-monotonic",
    "cho-cho_gru-forward",
    "encoder_decoder-pre-learned",
    "encoder_decoder-post-halves-ssru",
    "causal-post-sinusoidal",
]


@pytest.mark.parametrize(("early_stopping", "penalty"), [(True, 0.7), (False, -1), ("never", 0.7)])
@pytest.mark.parametrize("name", GENERATING)
def test_beams_are_those_of_generate(name: str, early_stopping: Any, penalty: float, tmp_path: Path) -> None:
    model = tiny_model(name)
    model.generation_config.update(num_beams=3, early_stopping=early_stopping, length_penalty=penalty)
    found, batch = exported(model, tmp_path / "out"), padded(EVERY_PADDING)
    prompt = batch["input_ids"].shape[1] if found.task == "continuation" else 1
    options = {"num_beams": 3, "max_new_tokens": 9}
    expected = model.generate(
        **batch,
        **options,
        num_return_sequences=2,
        output_scores=True,
        output_attentions=True,
        return_dict_in_generate=True,
    )
    actual = found.generate(*arrays(batch), n_best=2, **options)
    assert actual.tokens.tolist() == expected.sequences[:, prompt:].tolist()
    lengths = np.array([len(until_end(row)) for row in actual.tokens.tolist()])
    assert_close(actual.scores / lengths ** float(penalty), expected.sequences_scores, "scores")
    if actual.attention is not None and "encoder_decoder" not in name:
        for row, alignment in enumerate(generation_alignments(expected).numpy()):
            assert_close(actual.attention[row, : lengths[row]], alignment[: lengths[row]], "alignments")


def until_end(tokens: list[int], end: int = 2) -> list[int]:
    """The tokens up to and including the end token."""
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens


def test_each_text_has_its_own_limit(tmp_path: Path) -> None:
    found = exported(tiny_model("luong-lstm-dot"), tmp_path / "out")
    ids, mask = arrays(padded(EVERY_PADDING))
    limits = np.array([1, 2, 3, 4, 5, 6])
    for beams in (1, 3):
        together = found.generate(ids, mask, num_beams=beams, max_new_tokens=limits)
        for row, limit in enumerate(limits):
            alone = found.generate(ids[row : row + 1], mask[row : row + 1], num_beams=beams, max_new_tokens=int(limit))
            width = alone.tokens.shape[1]
            assert until_end(together.tokens[row, :width].tolist()) == until_end(alone.tokens[0].tolist())
            assert together.scores[row] == pytest.approx(alone.scores[0], abs=1e-4)


def test_samples_follow_the_probabilities(tmp_path: Path) -> None:
    """The first tokens of many samples, compared with the distribution that top_k, top_p and a temperature leave."""
    model = tiny_model("luong-lstm-dot", std=0.5)
    found, batch = exported(model, tmp_path / "out"), padded([[1, 1, 1]])
    ids, mask = arrays(batch)
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=torch.tensor([[1]])).logits[0, 0] / 0.8
    kept = logits.topk(6).indices
    shares = logits[kept].softmax(dim=0)
    kept, shares = kept[shares.cumsum(dim=0) - shares < 0.9], shares[shares.cumsum(dim=0) - shares < 0.9]
    count = 4000
    options = {"temperature": 0.8, "top_k": 6, "top_p": 0.9}
    drawn = found.generate(ids, mask, n_best=count, max_new_tokens=1, do_sample=True, seed=3, **options)
    assert set(drawn.tokens[:, 0].tolist()) == set(kept.tolist())
    for token, share in zip(kept.tolist(), (shares / shares.sum()).tolist(), strict=True):
        error = 4 * (share * (1 - share) / count) ** 0.5
        assert (drawn.tokens[:, 0] == token).mean() == pytest.approx(share, abs=error)
    again = found.generate(ids, mask, n_best=count, max_new_tokens=1, do_sample=True, seed=3, **options)
    assert again.tokens.tolist() == drawn.tokens.tolist()
    found = exported(model, tmp_path / "texts", tokenizer=TOKENIZER)
    found.batch_size = 8
    texts = [outputs[0].text for outputs in found(["abcde"] * 16, do_sample=True, temperature=2.0, seed=5)]
    assert texts[:8] != texts[8:]  # a batch is not the one before again
    assert texts == [outputs[0].text for outputs in found(["abcde"] * 16, do_sample=True, temperature=2.0, seed=5)]


@pytest.mark.parametrize("kind", ["attentional-rnn", "transformer-encoder-decoder", "transformer-causal"])
def test_texts_give_what_pytorch_and_the_tokenizer_give(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    found = exported(model, tmp_path / "out", tokenizer=TOKENIZER)
    texts = [*TEXTS, "Zoë!"]
    with pytest.warns(UserWarning, match="parts that this model does not know"):
        outputs = found(texts, n_best=2, num_beams=2, max_new_tokens=6, alignments=True)
    for text, best in zip(texts, outputs, strict=True):
        ids = TOKENIZER([text], return_tensors="pt")
        batch = {name: ids[name] for name in ("input_ids", "attention_mask")}
        expected = model.generate(**batch, num_beams=2, num_return_sequences=2, max_new_tokens=6)
        assert [one.text for one in best] == TOKENIZER.batch_decode(expected, skip_special_tokens=True)
        if kind != "transformer-causal":
            assert all(one.alignment.shape == (len(one.tokens), ids["input_ids"].shape[1]) for one in best)


def test_classifiers_name_their_labels(tmp_path: Path) -> None:
    model = make_model("self-attentive-pair", id2label={0: "no", 1: "perhaps", 2: "yes"})
    found = exported(model, tmp_path / "out", tokenizer=TOKENIZER)
    results = found(TEXTS, TEXTS[::-1])
    for text, pair, result in zip(TEXTS, TEXTS[::-1], results, strict=True):
        batch = TOKENIZER([text], [pair], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
        expected = outputs.logits[0].softmax(dim=0)
        assert result.label == model.config.id2label[int(expected.argmax())]
        assert_close(np.array(list(result.values.values())), expected, "probabilities")
        assert_close(result.attention, outputs.attentions[0][0, 0], "attention")
        assert result.tokens == tuple(TOKENIZER.convert_ids_to_tokens(batch["input_ids"][0]))
    with refused(ValueError, "reads pairs"):
        found("abc")
    with refused(ValueError, "every text needs its pair", "2 texts and 1 pairs"):
        found(["a", "b"], ["c"])
    with pytest.warns(UserWarning, match=r"'ab\?' and 'c!d' have parts that this model does not know: \['\?', '!'\]"):
        found("ab?", "c!d")


def test_bad_input_is_named(tmp_path: Path) -> None:
    found = exported(make_model("attentional-rnn"), tmp_path / "out", tokenizer=TOKENIZER)
    for arguments, options, fragments in [
        (([[3, 99]],), {}, ("the id 99", "0 to 30")),
        (([[3, -1]],), {}, ("the id -1",)),
        (([[]],), {}, ("whole numbers", "(1, 0)")),
        (([[0.5]],), {}, ("whole numbers", "float64")),
        (([[3, 4]], [[1, 2]]), {}, ("1 on real tokens and 0 on padding",)),
        (([[3, 4]], [[1]]), {}, ("(1, 2) and (1, 1)",)),
        (([[3]],), {"n_best": 0}, ("n_best", "got 0")),
        (([[3]],), {"n_best": 3, "num_beams": 2}, ("n_best", "num_beams=2", "got 3")),
        (([[3]],), {"max_new_tokens": 0}, ("max_new_tokens must be at least 1, got 0",)),
        (([[3]],), {"do_sample": True, "temperature": 0.0}, ("temperature must be above 0",)),
        (([[3]],), {"do_sample": True, "num_beams": 2}, ("num_beams=2",)),
    ]:
        with refused(ValueError, *fragments):
            found.generate(*map(np.array, arguments), **options)
    with refused(ValueError, "batch_size must be at least 1, got 0"):
        OnnxModel(found.folder, batch_size=0)
    with refused(ValueError, "a text is empty"):
        found("  ")
    with refused(TypeError, "a text must be a string, got 3"):
        found([3])
    with refused(ValueError, "max_new_tokens must be at least 1"):
        found("a", max_new_tokens=0)
    with refused(TypeError, "pairs must be a text, as texts is, got ['b']"):
        found("a", pairs=["b"])
    with refused(TypeError, "num_beam"):
        found("a", num_beam=2)
    assert found([]) == []
    with refused(FileNotFoundError, "nowhere", "export.json"):
        OnnxModel(tmp_path / "nowhere")
    learned = exported(tiny_model("transformer-masked"), tmp_path / "learned")
    with refused(ValueError, "33 tokens", "32 positions"):
        learned._checked(np.full((1, 33), 3), None)


def test_what_cannot_be_exported_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    def refuse(model: Any, *fragments: str, **options: Any) -> None:
        with refused(ValueError, *fragments):
            to_onnx(model, tmp_path / "out", **options)
        assert not list(tmp_path.iterdir())

    refuse(tiny_model("base-single"), "SelfAttentiveModel has no ONNX export", "SelfAttentiveForSequenceClassification")
    refuse(make_model("attentional-rnn"), "weights must be one of", "'int4'", weights="int4")
    model = make_model("attentional-rnn")
    model.generation_config.repetition_penalty = 1.5
    refuse(model, "repetition_penalty=1.5", "model.generation_config")
    several, sampled = {"num_return_sequences": 3}, {"do_sample": True}
    for options, said in ((several, "num_return_sequences=3"), (sampled, "num_beams=4")):
        model = make_model("attentional-rnn")
        model.generation_config.update(num_beams=4, **options)
        refuse(model, said, "model.generation_config")
    model = make_model("attentional-rnn")
    model.model.encoder.register_forward_hook(lambda *_: None)
    refuse(model, "model.encoder has forward hooks")
    model = make_model("attentional-rnn")
    model.lm_head.weight.data[0, 0] = torch.nan
    refuse(model, "values that are not finite (NaN or infinite) in lm_head.weight")
    model = make_model("attentional-rnn")
    model.lm_head = torch.nn.Linear(9, 3)
    refuse(model, "other weights than its config says", "lm_head")
    refuse(make_model("attentional-rnn"), "not a fast tokenizer", tokenizer=object())
    for field in KNOWN_PARTS:  # a class of the user's may compute something else than the class that it extends
        model = tiny_model("luong-lstm-general-predictive-feeding")
        attention = model.model.decoder.wiring.attention
        layer = model.model.encoder.rnn.layers[0]
        parts = {"wiring": model.model.decoder.wiring, "cell": layer.backward_rnn or layer.forward_rnn}
        part = (parts | {"score": attention.score, "window": attention.window})[field]
        part.__class__ = type("Mine", (type(part),), {})
        refuse(model, f"{field}=", "is a Mine", "an export to ONNX does not compute")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all my work")
    with refused(FileExistsError, "is not empty"):
        to_onnx(make_model("attentional-rnn"), tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_folder_runs_where_only_its_three_libraries_are(tmp_path: Path) -> None:
    """A Python with only numpy, tokenizers and onnxruntime runs ``run.py``, as a command and as a module."""
    folder = to_onnx(make_model("attentional-rnn"), tmp_path / "out", TOKENIZER)
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("numpy", "tokenizers", "onnxruntime"):
        place = Path(importlib.import_module(name).__path__[0])
        (libraries / name).symlink_to(place)
        if (place.parent / f"{name}.libs").is_dir():
            (libraries / f"{name}.libs").symlink_to(place.parent / f"{name}.libs")
    start = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(libraries)!r}]; "

    def run(code: str) -> str:
        command = [sys.executable, "-I", "-S", "-c", start + code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120)
        return done.stdout

    missing = (
        "import importlib.util; print([importlib.util.find_spec(n) for n in ('torch', 'transformers', 'attnzoo')])"
    )
    assert run(missing) == "[None, None, None]\n"
    expected = OnnxModel(folder)("abc", n_best=2, num_beams=2)
    printed = run("import run; run.main(['abc', '--n-best', '2', '--num-beams', '2', '--alignments'])").splitlines()
    assert printed[::2] == [f"abc\t{one.text}\t{one.score:.2f}" for one in expected]
    assert all("<-" in line for line in printed[1::2])
    found = run("from run import OnnxModel; print([one.text for one in OnnxModel()('abc', n_best=2, num_beams=2)])")
    assert found == f"{[one.text for one in expected]}\n"
    sampled = run("import run; run.main(['abc', '--sample', '--seed', '1', '--n-best', '2'])").splitlines()
    assert len(sampled) == 2


@pytest.mark.parametrize("kind", ["self-attentive", "self-attentive-pair", "transformer-tagger", "transformer-masked"])
def test_the_command_prints_what_a_model_reads_in_a_text(kind: str, tmp_path: Path, capsys: Any) -> None:
    found = exported(make_model(kind), tmp_path / "out", tokenizer=TOKENIZER)
    text = "abc\tde" if kind == "self-attentive-pair" else "abc"
    export_run.main([text, "--folder", str(found.folder)])
    printed, _, shown = capsys.readouterr().out.partition("\t")
    assert shown == f"{text}\n"
    if kind.startswith("self-attentive"):
        [expected] = found(["abc"], ["de"] if kind == "self-attentive-pair" else None)
        assert printed == expected.label


@pytest.mark.wheel
def test_a_virtual_environment_of_three_libraries_is_enough(tmp_path: Path) -> None:
    folder = to_onnx(make_model("attentional-rnn"), tmp_path / "out", TOKENIZER)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    size = sum(path.stat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", "tokenizers", "onnxruntime"], check=True)
    command = [python, "run.py", "abc", "--num-beams", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    (expected,) = OnnxModel(folder)("abc", num_beams=1)
    assert done.stdout == f"abc\t{expected.text}\n"
    is_there = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    assert not is_there
    whole = sum(path.stat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    assert whole - size < 200e6
