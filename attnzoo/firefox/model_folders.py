"""Firefox's models as folders for the Hub, and models of ours as files for Firefox."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCard
from transformers import PreTrainedTokenizerFast

from ..json_files import checksum
from ..loading import load_trained
from ..messages import shown, shown_each
from ..modeling_small_transformer import SmallTransformerForConditionalGeneration
from ..new_folders import new_folder
from .browser_arithmetic import recorded_alphas
from .comparing import EXACT, FLOAT, SATURATING, agreement, translations
from .marian_files import write_bin
from .parameters import to_marian
from .sentencepiece_file import Kind, SentencePieceFile, write_sentencepiece
from .sentencepiece_tokenizer import from_tokenizer
from .students import METADATA, Student, StudentFiles, naming, read_student

PIECES = "vocab.spm"  # in a folder for Firefox
LICENCE = {"license": "mpl-2.0"}  # of Mozilla's models, where the files say nothing else
OTHER_LICENCE = {"license": "other", "license_name": "see-license", "license_link": "LICENSE"}
LICENCE_KEYS = ("license", "license_name", "license_link")
COMPARED = 50  # sentences; the browser's arithmetic needs a second or more for each
CARD = """---
{header}
---

# {name}

A translation model of Firefox, read from `{model}` by `attnzoo import firefox`. It is a Transformer encoder with a
recurrent decoder (SSRU; Kim et al., 2019) of {parameters:,} parameters.

```python
from transformers import AutoTokenizer

import attnzoo  # registers the model with Transformers
from attnzoo import SmallTransformerForConditionalGeneration

model = SmallTransformerForConditionalGeneration.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")
batch = tokenizer(["A sentence."], padding=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

{weights} Firefox computes in eight bits, so some of its outputs differ. A sentence has at most about 128 pieces; split
longer texts.

| source file | bytes | sha256 |
|---|---|---|
{files}
"""


def import_folder(
    files: StudentFiles, student: Student, folder: str | Path, languages: Sequence[str] = (), licence: str | None = None
) -> None:
    """Write a model of Firefox as a complete folder for the Hub: model, tokenizer, card and licence.

    Args:
        files: the model's files
        student: their contents, loaded
        folder: a new one, or an empty one
        languages: of source and target; empty for those in the metadata
        licence: its id on the Hub; None for what the files say, or else MPL-2.0

    Raises:
        FileExistsError: the folder is not empty.
        ValueError: a card beside the model cannot be read.
    """
    stated = [files.metadata.get(f"{side}Language") for side in ("source", "target")]
    spoken = [*languages] or [language for language in stated if isinstance(language, str)]
    header: dict[str, Any] = {"language": spoken} if spoken else {}
    header |= {"license": licence} if licence else licence_of(files.documents)
    header |= {"library_name": "transformers", "pipeline_tag": "translation"}
    header["tags"] = ["attnzoo", "firefox", "marian", "translation"]
    weights = "in eight bits, which became float32" if student.marian.has_codes else "in float32"
    rows = [(path.name, path.stat().st_size, checksum(path)) for path in (files.model, files.vocabulary)]
    with new_folder(folder) as part:
        student.model.save_pretrained(part)
        student.tokenizer.save_pretrained(part)
        if licences := [path for path in files.documents if path.name == "LICENSE"]:
            shutil.copyfile(licences[0], part / "LICENSE")
        card = CARD.format(
            header=yaml.safe_dump(header, sort_keys=False).strip(),
            name=Path(folder).absolute().name,
            model=files.model.name,
            parameters=student.model.num_parameters(),
            weights=f"The weights were {weights}.",
            files="\n".join(f"| `{name}` | {size:,} | `{digest}` |" for name, size, digest in rows),
        )
        (part / "README.md").write_text(card, encoding="utf-8")


def check_vocabulary(model: Any, tokenizer: PreTrainedTokenizerFast, pieces: SentencePieceFile) -> None:
    """Raise a ValueError unless the engine's tokens would be those of the model and its tokenizer."""
    texts = [text for text, *_ in pieces.pieces]
    own = {text for text, _, kind in pieces.pieces if kind in (Kind.CONTROL, Kind.UNKNOWN)} | {tokenizer.pad_token}
    if added := sorted(tokenizer.get_added_vocab().keys() - own):
        raise ValueError(f"the tokenizer has added tokens, which Firefox's vocabularies have not: {shown_each(added)}")
    if model.config.vocab_size != len(texts) + 1:
        raise ValueError(
            f"vocab_size is {model.config.vocab_size:,}, and the tokenizer has {len(texts):,} pieces; for Firefox the "
            "model has one token more, the start token"
        )
    if (end := model.config.eos_token_id) != texts.index(pieces.eos):
        raise ValueError(f"eos_token_id must be that of {shown(pieces.eos)}, {texts.index(pieces.eos)}, got {end}")


def licence_of(documents: Sequence[Path]) -> dict[str, str]:
    """The licence that the first README.md or LICENSE with one states, in the form of a card's header; else MPL-2.0.

    Raises:
        ValueError: the header of a README.md cannot be read.
    """
    for path in documents:
        if path.name == "LICENSE":
            is_mozillas = "Mozilla Public License" in path.read_text(encoding="utf-8", errors="replace")[:1000]
            return LICENCE if is_mozillas else OTHER_LICENCE
        try:
            header = ModelCard.load(path).data.to_dict()
        except Exception as error:  # those of the YAML parser have no base class in common with others
            raise ValueError(f"the header of {path} cannot be read: {error}; mend it, or name the licence") from error
        if found := {key: str(header[key]) for key in LICENCE_KEYS if header.get(key)}:
            return found
    return LICENCE


def export_to_firefox(
    source: str | Path,
    folder: str | Path,
    sentences: Sequence[str],
    weights: str = "int8",
) -> list[tuple[str, str]]:
    """Write a model of ours as the files that Firefox's engine reads: the model, its vocabulary and their checksum.

    Args:
        source: the folder or Hub id of the model, with its tokenizer
        folder: a new one, or an empty one
        sentences: in the language of the source, some hundred; the first ones are translated to compare, and all to
            record the alphas of eight bits
        weights: "int8", or "float32", which the engine reads, too

    Returns:
        how many of the first ``COMPARED`` sentences the written model translates as the one in float32 does, in each
        arithmetic

    Raises:
        ValueError: Firefox has no such model or no such tokenizer, or there are no sentences.
        FileExistsError: the folder is not empty.
    """
    if weights not in ("int8", "float32"):
        raise ValueError(f"weights for Firefox are 'int8' or 'float32', got {weights!r}")
    if not sentences:
        raise ValueError(
            "give at least one sentence, better some hundred, to compare and to find the scales of eight bits"
        )
    with new_folder(folder) as part:
        model = load_trained(SmallTransformerForConditionalGeneration, source)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(source, trust_remote_code=False)
        with naming(Path(source) / "tokenizer.json"):
            pieces = from_tokenizer(tokenizer)
        with naming(Path(source)):
            check_vocabulary(model, tokenizer, pieces)
        rows = tokenizer([*sentences])["input_ids"]
        in_float = to_marian(model)
        marian = in_float if weights == "float32" else in_float.in_int8(recorded_alphas(model, rows))
        name = "model.intgemm.alphas.bin" if weights == "int8" else "model.bin"
        write_bin(part / name, marian)
        write_sentencepiece(part / PIECES, pieces)
        metadata = {"byteSize": (part / name).stat().st_size, "hash": checksum(part / name)}
        (part / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        written = read_student(StudentFiles(part / name, part / PIECES, metadata))
        before = translations(Student(in_float, pieces, model, tokenizer), sentences[:COMPARED])[FLOAT]
        found = translations(written, sentences[:COMPARED])
    return [
        (f"model and {name}", agreement(before, found[name])) for name in (FLOAT, SATURATING, EXACT) if name in found
    ]
