"""Which model a command reads, and whether it can."""

import difflib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedConfig

from ..json_files import read_mapping
from ..phonemes import known_phonemes
from ..shipped_models import EXPORT, SHIPPED, named_folder
from ..zoo_config import ZooConfig

JSON_FILES = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", EXPORT}
JSON_FILES |= {"model.safetensors.index.json"}
# The command that reads the models whose cards have this tag.
READERS = {"grapheme-to-phoneme": "pronounce", "translation": "translate", "summarization": "summarize"}
NO_CODE: dict[str, Any] = {"trust_remote_code": False}  # of from_pretrained(): else Transformers asks, and runs it


def folder_of(model: str, command: str) -> str:
    """The folder or Hub id of the model that a command reads, for ``from_pretrained``.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the command does not read models of this kind; the message names the one that does.
    """
    folder = named_folder(model)
    path, is_hub_id = Path(folder), re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    is_beside_runs = any(path.parent.glob("*/recipe.yaml"))  # a mistyped run, which the Hub would be asked for
    if not (path / "config.json").is_file() and (path.exists() or not is_hub_id or is_beside_runs):
        refuse_adapter(path)
        raise FileNotFoundError(absent(model))
    if (path / EXPORT).is_file():
        if command != "pronounce":
            remedy = "give the model that it was exported from; of all commands, only pronounce reads exported models"
            raise ValueError(f"{model} is an exported model, which attnzoo {command} does not read; {remedy}")
    else:
        require_no_code(model, folder)
    require_readable(folder)
    if not (path / EXPORT).is_file() and command in ("classify", *READERS.values()):
        kind, readers = _kind_and_readers(folder)
        if command not in readers:
            raise ValueError(
                f"{model} is {kind}, which attnzoo {command} does not read; use attnzoo {' or '.join(readers)}"
            )
    return folder


def absent(model: str) -> str:
    """What to say of a path, or of a name, where there is no model."""
    path = Path(model)
    if path.is_dir():
        best = f"; did you mean {path / 'best'}?" if (path / "best" / "config.json").is_file() else ""
        return f"{model} is not a checkpoint folder: it has no config.json{best}"
    if path.name in SHIPPED:
        return f"there is no folder {model}; did you mean the shipped model {path.name}?"
    if (path.parent / "recipe.yaml").is_file():
        return f"{path.parent} has no {path.name}; a training writes best and last at its first evaluation"
    if len(path.parts) > 1:
        return f"there is no folder {model}"
    close = difflib.get_close_matches(model, SHIPPED, n=1)
    hint = f"; did you mean {close[0]}?" if close else "; `attnzoo list` prints the names"
    return f"{model} is neither a folder nor the name of a shipped model{hint}"


def _kind_and_readers(folder: str) -> tuple[str, list[str]]:
    """What a model is, in words, and the commands that read it: by its config, its card and its tokenizer."""
    config = AutoConfig.from_pretrained(folder, **NO_CODE)
    head = (config.architectures or [config.model_type])[0]
    if "SequenceClassification" in head:
        return f"a classifier ({head})", ["classify"]
    if not config.is_encoder_decoder:
        # Without architectures the config does not say whether this is a classifier; loading the weights does.
        readers = ["view"] if config.architectures else ["view", "classify"]
        return f"a model without source and target ({head})", readers
    tags = _card_tags(folder)
    tasks = [task for task in READERS if task in tags]
    if not tasks and known_phonemes(AutoTokenizer.from_pretrained(folder, **NO_CODE)):
        tasks = ["grapheme-to-phoneme"]
    if not tasks:
        return f"an encoder-decoder whose card names no task ({head})", ["translate", "summarize"]
    return f"a model for {' and '.join(tasks)} ({head})", [READERS[task] for task in tasks]


def refuse_adapter(folder: Path) -> None:
    """Raise a ValueError if the folder has an adapter of PEFT and not its model."""
    path = folder / "adapter_config.json"
    if path.is_file() and not (folder / "config.json").is_file():
        base = read_mapping(path).get("base_model_name_or_path")
        of_base = f" for the model {base}" if base else ""
        raise ValueError(
            f"{folder} is an adapter of PEFT{of_base}, and commands read whole models; merge the two in "
            "Python, PeftModel.from_pretrained(model, ADAPTER).merge_and_unload().save_pretrained(NEW), save the "
            "tokenizer there too, and give the folder NEW"
        )


def require_no_code(model: str, folder: str) -> None:
    """Raise a ValueError if Transformers would run code from the model's folder or repository."""
    path = Path(folder, "config.json")
    config: Any = read_mapping(path) if path.is_file() else PreTrainedConfig.get_config_dict(folder)[0]
    if "auto_map" in config and str(config.get("model_type")) not in CONFIG_MAPPING:
        raise ValueError(
            f"{model} has code of its own for its model_type {config.get('model_type')!r}, and attnzoo's commands run "
            "no such code; if you trust it, load the model in Python with trust_remote_code=True"
        )


def require_readable(folder: str | Path) -> None:
    """Read the config, the tokenizer and the other JSON files of a model, so that an error names the damaged file.

    Raises:
        OSError: a file is missing.
        ValueError: a file is damaged.
    """
    for path in sorted(Path(folder).glob("*.json")):
        if path.name in JSON_FILES:
            read_mapping(path)
    with _naming_damage("config.json", folder):
        config = AutoConfig.from_pretrained(folder, **NO_CODE)
        names = config.architectures or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"architectures is {names!r}")
    if isinstance(config, ZooConfig) and Path(folder).is_dir() and not Path(folder, "tokenizer.json").is_file():
        raise FileNotFoundError(f"{folder} has no tokenizer.json; save the model's tokenizer there, too")
    with _naming_damage("tokenizer.json or tokenizer_config.json", folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, **NO_CODE)
        is_padded = tokenizer.pad_token is not None
        tokenizer.pad(tokenizer(["", ""]), padding=is_padded, verbose=False)  # as the commands do with pairs
        if "attention_mask" not in tokenizer(["", ""], padding=is_padded):
            raise ValueError("it makes no attention_mask")
    if isinstance(config, ZooConfig) and len(tokenizer) < config.vocab_size:
        warnings.warn(
            f"the tokenizer in {folder} has {len(tokenizer):,} tokens, and the model {config.vocab_size:,}; if it is "
            "the tokenizer of another model, the results are meaningless",
            stacklevel=2,
        )


@contextmanager
def _naming_damage(name: str, folder: str | Path) -> Iterator[None]:
    """Turn an error of any class into a ValueError that names the file. An OSError names it already."""
    try:
        yield
    except (OSError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a wrong value makes the libraries raise; a panic in Rust is no Exception
        raise ValueError(f"{name} in {folder} is damaged: {error}") from error


def _card_tags(folder: str) -> set[str]:
    """The tags of a model's card; none if it has no card, or a card that cannot be read, which gives a warning."""
    card = Path(folder, "README.md")
    if Path(folder).exists() and not card.is_file():
        return set()
    try:
        data = ModelCard.load(card if card.is_file() else folder).data.to_dict()
    except OSError:
        return set()
    except Exception as error:  # those of the YAML parser have no base class in common with others
        warnings.warn(f"the header of {card} cannot be read, so its tags are not known: {error}", stacklevel=2)
        return set()
    tags = data.get("tags")
    named = [*(tags if isinstance(tags, list) else [tags]), data.get("pipeline_tag")]
    return {tag for tag in named if isinstance(tag, str)}
