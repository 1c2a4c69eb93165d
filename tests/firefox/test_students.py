"""Complete models of Firefox: found in a folder or on the Hub, read, used and refused."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import firefox, search
from attnzoo.firefox import students
from attnzoo.firefox.marian_files import write_bin, write_npz
from attnzoo.firefox.model_folders import licence_of
from attnzoo.firefox.sentencepiece_file import Kind, Piece, read_sentencepiece, write_sentencepiece
from tests.factory import refused
from tests.firefox.models import random_model, varied_model
from tests.firefox.vocabularies import vocabulary

MODEL, VOCABULARY = "model.enhu.intgemm.alphas.bin", "vocab.enhu.spm"
TEXTS = ["A sentence.", "One that is much longer than the other, and <pad> is five letters."]


def write_student(folder: Path, **metadata: Any) -> Path:
    """A model as it lies in Mozilla's folders."""
    folder.mkdir(parents=True)
    write_bin(folder / MODEL, varied_model())
    (folder / VOCABULARY).write_bytes(vocabulary("nmt_nfkc"))
    (folder / "lex.50.50.enhu.s2t.bin").write_bytes(b"not read")
    if metadata:
        (folder / "metadata.json").write_text(json.dumps(metadata))
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def outputs(model: Any, tokenizer: Any, **options: Any) -> list[str]:
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    return tokenizer.batch_decode(model.generate(**batch, **options), skip_special_tokens=True)


def test_a_model_is_loaded_and_is_one_of_transformers(tmp_path: Path) -> None:
    folder = write_student(tmp_path / "tiny" / "enhu")
    write_student(tmp_path / "tiny" / "huen").joinpath(MODEL).rename(tmp_path / "tiny" / "huen" / "model.huen.bin")
    model, tokenizer = firefox.load(tmp_path, "en-hu")
    assert len(tokenizer) == model.config.vocab_size == 1001
    texts = outputs(model, tokenizer)
    assert len({*texts}) == 2
    assert outputs(model, tokenizer, custom_generate=search) == texts
    assert outputs(*firefox.load(folder)) == texts
    assert outputs(*firefox.load(tmp_path, subfolder="tiny/enhu")) == texts
    model.save_pretrained(tmp_path / "saved")
    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    assert outputs(again, AutoTokenizer.from_pretrained(tmp_path / "saved")) == texts
    write_npz(tmp_path / "model.npz", varied_model())
    (tmp_path / "vocab.spm").write_bytes(vocabulary("nmt_nfkc"))
    other, _ = students.read_student(students.StudentFiles(tmp_path / "model.npz", tmp_path / "vocab.spm", {}))[2:]
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))


def test_a_repository_is_read_file_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_student(tmp_path / "models" / "enhu")
    (folder / "metadata.json").write_text(json.dumps({"hash": sha256(folder / MODEL)}))
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    (tmp_path / "LICENSE").write_text("Mozilla Public License Version 2.0")
    asked = []

    def download(repo: str, name: str, revision: str | None = None) -> str:
        asked.append((repo, name, revision))
        return str(tmp_path / name)

    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.setattr(students.HfApi, "list_repo_files", lambda self, repo, revision: names)
    monkeypatch.setattr(students, "hf_hub_download", download)
    firefox.load("someone/models", "en-hu", revision="v1")
    beside = [f"models/enhu/{name}" for name in ("metadata.json", "README.md", MODEL, VOCABULARY)]
    assert {*asked} == {("someone/models", name, "v1") for name in [*beside, "LICENSE"]}
    documents = students.find_student("someone/models", "en-hu").documents
    assert documents == [folder / "README.md", tmp_path / "LICENSE"]
    assert licence_of(documents) == {"license": "cc-by-nc-4.0"}
    assert licence_of(documents[1:]) == licence_of([]) == {"license": "mpl-2.0"}


def test_a_folder_that_is_not_there_is_named_if_no_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(students.HfApi, "list_repo_files", fail)
    with refused(ConnectionError, "there is no folder models/enhu, and no answer from the Hub: refused"):
        firefox.load("models/enhu")


def test_a_pair_is_found_in_its_own_folder_behind_a_link_and_in_files_that_name_none(tmp_path: Path) -> None:
    folder = write_student(tmp_path / "data" / "en_hu")
    (folder / "training_args.bin").touch()  # of Transformers' Trainer
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "enhu").symlink_to(folder)
    (tmp_path / "models" / "again").symlink_to(tmp_path / "models")
    for source in (folder, tmp_path / "data", tmp_path / "models"):
        assert students.find_student(source, "en-hu").model.samefile(folder / MODEL)
    (folder / MODEL).rename(folder / "model.bin")
    shutil.copytree(folder, tmp_path / "plain")
    assert students.find_student(tmp_path / "plain", "en-hu").model == tmp_path / "plain" / "model.bin"
    with refused(ValueError, "no .bin or .npz of a model for en-de, only 'model.bin'; name another pair, or none"):
        students.find_student(folder, "en-de")


def test_a_folder_without_exactly_one_model_is_refused(tmp_path: Path) -> None:
    folder = write_student(tmp_path / "tiny" / "enhu")
    with refused(FileNotFoundError, "nowhere is neither a folder nor"):
        firefox.load(tmp_path / "nowhere")
    with refused(ValueError, "pair must be two languages", "'enhu'"):
        firefox.load(tmp_path, "enhu")
    with refused(ValueError, "has no .bin or .npz of a model for en-de"):
        firefox.load(tmp_path, "en-de")
    write_student(tmp_path / "base" / "enhu")
    with refused(ValueError, "several files of a model for en-hu", f"base/enhu/{MODEL}", "name the pair"):
        firefox.load(tmp_path, "en-hu")
    (folder / VOCABULARY).rename(folder / "srcvocab.enhu.spm")
    (folder / "trgvocab.enhu.spm").write_bytes(b"")
    with refused(ValueError, "2 vocabularies", "'srcvocab.enhu.spm', 'trgvocab.enhu.spm'", "for source and target"):
        firefox.load(folder)
    (folder / MODEL).rename(folder / f"{MODEL}.gz")
    with refused(ValueError, f"unpack these first: '{MODEL}.gz'"):
        firefox.load(folder)


def test_a_damaged_model_is_refused_with_its_name(tmp_path: Path) -> None:
    folder = write_student(tmp_path / "one", hash="0" * 64)
    with refused(ValueError, MODEL, "its sha256 is", "expected '0000"):
        firefox.load(folder)
    (folder / "metadata.json").write_text(json.dumps({"hash": 3}))
    with refused(ValueError, "metadata.json: hash must be a sha256, got int: 3"):
        firefox.load(folder)
    (folder / "metadata.json").unlink()
    write_bin(folder / MODEL, random_model())
    with refused(ValueError, MODEL, "dim-vocabs says 20 pieces", f"{VOCABULARY} has 1,000"):
        firefox.load(folder)
    write_bin(folder / MODEL, replace(varied_model(), options="type: s2s"))
    with refused(ValueError, MODEL, "type is 's2s'"):
        firefox.load(folder)
    file = read_sentencepiece(folder / VOCABULARY)
    pieces = [*file.pieces[:-1], Piece("<pad>", 0.0, Kind.CONTROL)]
    write_sentencepiece(folder / VOCABULARY, replace(file, pieces=pieces))
    with refused(ValueError, VOCABULARY, "a piece is '<pad>'"):
        firefox.load(folder)
