"""A complete model of Firefox, in a folder or on the Hub: a ``.bin`` or ``.npz`` beside its ``.spm``."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from huggingface_hub import HfApi, hf_hub_download
from transformers import PreTrainedTokenizerFast

from ..json_files import read_mapping
from ..messages import described, shown, shown_each
from ..modeling_small_transformer import SmallTransformerForConditionalGeneration
from .engine import LONGEST
from .marian_files import read_marian
from .marian_model import MarianModel
from .parameters import to_model
from .sentencepiece_file import SentencePieceFile, read_sentencepiece
from .sentencepiece_tokenizer import to_tokenizer
from .student_options import StudentOptions

START = "<pad>"  # the name of the start token, which is the padding, too
MODELS, VOCABULARY, METADATA = (".bin", ".npz"), ".spm", "metadata.json"
DOCUMENTS = ("README.md", "LICENSE")
UNNAMED = ("model.bin", "model.npz", "model.intgemm.", "vocab.spm")  # names without a pair, as attnzoo writes them
NO_MODELS = ("training_args.bin", "optimizer.bin", "scheduler.bin", "pytorch_model.bin")  # of Transformers
PACKED = (".gz", ".zst", ".xz", ".zip")


class StudentFiles(NamedTuple):
    """Where the parts of a model are, and what is known of it.

    Attributes:
        model: the ``.bin`` or ``.npz``
        vocabulary: the ``.spm``
        metadata: the content of ``metadata.json`` beside the model; empty without one
        documents: the README.md and LICENSE that there are, those beside the model before those of the whole folder
    """

    model: Path
    vocabulary: Path
    metadata: dict[str, Any]
    documents: Sequence[Path] = ()

    @property
    def sha256(self) -> str | None:
        """The checksum that the metadata say the model has, or None.

        Raises:
            ValueError: it is not a sha256.
        """
        found = self.metadata.get("hash")
        if found is not None and not (isinstance(found, str) and re.fullmatch("[0-9a-f]{64}", found)):
            raise ValueError(f"{self.model.with_name(METADATA)}: hash must be a sha256, got {described(found)}")
        return found


class Student(NamedTuple):
    """The contents of the files, and the model and tokenizer made of them."""

    marian: MarianModel
    pieces: SentencePieceFile
    model: SmallTransformerForConditionalGeneration
    tokenizer: PreTrainedTokenizerFast


def load(
    source: str | Path, pair: str | None = None, subfolder: str = "", revision: str | None = None
) -> tuple[SmallTransformerForConditionalGeneration, PreTrainedTokenizerFast]:
    """A translation model of Firefox as a model and a tokenizer of Transformers.

    Weights in eight bits become float32. Sizes are compared before memory is taken, and nothing in the files is
    trusted; a ``metadata.json`` beside the model gives the checksum that the model must have.

    Args:
        source: a folder with the model's ``.bin`` or ``.npz`` and its ``.spm``, or ``owner/name`` on the Hub
        pair: the languages, such as "en-hu", where there are models of several pairs
        subfolder: of the folder or the repository, where there are several models of a pair
        revision: of the repository

    Returns:
        the model, in evaluation mode and with ``max_new_tokens`` as the engine's, and its tokenizer

    Raises:
        FileNotFoundError: there is no such folder.
        HfHubHTTPError: there is no such repository.
        ConnectionError: there is no network.
        ValueError: ``pair`` is not two languages, there is no model or more than one, or a file is damaged or of
            another kind; the message names the file, the item and the reason.
    """
    student = read_student(find_student(source, pair, subfolder, revision))
    return student.model, student.tokenizer


def find_student(
    source: str | Path, pair: str | None = None, subfolder: str = "", revision: str | None = None
) -> StudentFiles:
    """The files of one model. Those on the Hub are downloaded. Arguments and errors are those of :func:`load`."""
    if pair is not None and not re.fullmatch("[a-zA-Z]{2,3}-[a-zA-Z]{2,3}", pair):
        raise ValueError(f"pair must be two languages such as 'en-hu', got {shown(pair)}")
    root = Path(source)
    is_hub_id = not root.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+", str(source))
    if is_hub_id:
        try:
            names = HfApi().list_repo_files(str(source), revision=revision)
        except (OSError, ValueError):
            raise
        except Exception as error:  # one of the HTTP client, whose classes are not those of huggingface_hub
            raise ConnectionError(f"there is no folder {source}, and no answer from the Hub: {error}") from error
    elif root.is_dir():
        names = [path.relative_to(root).as_posix() for path in files_below(root)]
    else:
        raise FileNotFoundError(f"{source} is neither a folder nor owner/name on the Hub")
    model, vocabulary = chosen_files(names, str(source), pair, subfolder)

    def path_of(name: str) -> Path:
        return Path(hf_hub_download(str(source), name, revision=revision)) if is_hub_id else root / name

    beside = PurePosixPath(model).parent
    metadata = read_mapping(path_of(str(beside / METADATA))) if str(beside / METADATA) in names else {}
    documents = dict.fromkeys(str(place / name) for place in (beside, PurePosixPath()) for name in DOCUMENTS)
    stated = [path_of(name) for name in documents if name in names]
    return StudentFiles(path_of(model), path_of(vocabulary), metadata, stated)


def files_below(root: Path) -> list[Path]:
    """The files in a folder and in those below it, also where a link leads to a folder."""
    found, seen = [], set[str]()
    for folder, folders, names in os.walk(root, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()  # a link to a folder above, or a second one to the same
        seen.add(real)
        found += [Path(folder, name) for name in names]
    return sorted(found)


def chosen_files(names: list[str], source: str, pair: str | None, subfolder: str) -> tuple[str, str]:
    """The only model among these names of files, and its vocabulary.

    Raises:
        ValueError: there is no model or more than one, or there is not exactly one vocabulary beside the model.
    """
    code = pair and pair.replace("-", "").lower()

    def is_of_pair(path: PurePosixPath) -> bool:
        folder = re.sub("[-_]", "", path.parent.name or PurePosixPath(source).name).lower()
        names_none = path.name.startswith(UNNAMED) and not re.fullmatch("[a-z]{4}", folder)
        return f".{code}." in path.name or folder == code or (names_none and str(path.parent) == ".")

    def is_wanted(path: PurePosixPath) -> bool:
        return (code is None or is_of_pair(path)) and (not subfolder or path.is_relative_to(subfolder))

    def is_model(path: PurePosixPath) -> bool:
        return path.suffix in MODELS and not path.name.startswith("lex") and path.name not in NO_MODELS

    paths = [*map(PurePosixPath, names)]
    wanted = [path for path in paths if is_wanted(path)]
    models = [path for path in wanted if is_model(path)]
    what = f"{source} has {{}} of a model{f' for {pair}' if pair else ''}{f' in {subfolder}' if subfolder else ''}"
    if not models:
        packed = [path.name for path in wanted if path.suffix in PACKED]
        others = [str(path) for path in paths if is_model(path)]
        remedy = f"; unpack these first: {shown_each(packed)}" if packed else ""
        remedy = remedy or (f", only {shown_each(others)}; name another pair, or none" if others else "")
        raise ValueError(f"{what.format('no .bin or .npz')}{remedy}")
    if len(models) > 1:
        listed = shown_each(map(str, models))
        raise ValueError(f"{what.format('several files')}: {listed}; name the pair and the subfolder of one")
    (model,) = models
    vocabularies = [path for path in wanted if path.suffix == VOCABULARY and path.parent == model.parent]
    if len(vocabularies) != 1:
        listed = f": {shown_each(path.name for path in vocabularies)}" if vocabularies else ""
        raise ValueError(
            f"{what.format(f'{len(vocabularies)} vocabularies (.spm)')}{listed}; it must have one, beside {model}, for "
            "source and target"
        )
    return str(model), str(vocabularies[0])


def read_student(files: StudentFiles) -> Student:
    """Read a model with its vocabulary.

    Raises:
        ValueError: as :func:`load`.
    """
    marian, pieces = read_marian(files.model, files.sha256), read_sentencepiece(files.vocabulary)
    with naming(files.vocabulary):
        tokenizer = student_tokenizer(pieces)
    with naming(files.model):
        options = StudentOptions.from_yaml(marian.options)
        if options.target_vocab_size != len(pieces.pieces):
            found = f"{files.vocabulary.name} has {len(pieces.pieces):,}"
            raise ValueError(f"dim-vocabs says {options.target_vocab_size:,} pieces, and {found}")
        model = to_model(marian, [text for text, *_ in pieces.pieces].index(pieces.eos))
    model.generation_config.max_new_tokens = LONGEST
    return Student(marian, pieces, model, tokenizer)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of a file before the message of a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def student_tokenizer(pieces: SentencePieceFile) -> PreTrainedTokenizerFast:
    """The tokenizer of a vocabulary, with the start token after all pieces.

    Raises:
        ValueError: a piece is named "<pad>"; or as :func:`to_tokenizer`.
    """
    if any(text == START for text, *_ in pieces.pieces):
        raise ValueError(f"a piece is {START!r}, which is the name of the start token here")
    tokenizer = to_tokenizer(pieces)
    tokenizer.add_special_tokens({"pad_token": START})
    return tokenizer
