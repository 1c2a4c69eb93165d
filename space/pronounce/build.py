"""Build the page: ``python space/pronounce/build.py OUT MODEL...``, one HTML file with the models in it.

A model is the folder of an attentional RNN that pronounces words, or the name of one that comes with attnzoo. Its
weights are stored in eight bits with a scale for each row, gzipped, as base64. The first model is unpacked at once, the
others when they are chosen. A model of several languages reads a word by the dictionary of the chosen language and the
script of the word.
"""

import argparse
import base64
import gzip
import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import AttentionalRNNForConditionalGeneration, model_path
from attnzoo.export.graph import SMALL, numbers, quantise
from attnzoo.export.onnx_folder import refuse_copying
from attnzoo.export.recurrent_graph import refuse_unknown_parts
from attnzoo.languages import dictionaries_among
from attnzoo.phone_sets import ACCENT_TOKENS, SILVER_TOKENS, are_arpabet
from attnzoo.phonemes import CLOSE, OPEN, known_phonemes
from attnzoo.shipped_models import SHIPPED
from attnzoo.viewer.style import DARK, LIGHT

HERE = Path(__file__).parent
ACCENTS = {"en-us": "American English", "en-gb": "British English"}
FIELDS = (  # of a config, that the page reads
    *("wiring", "score", "window", "window_size", "max_source_positions", "input_feeding", "cell", "bidirectional"),
    *("reverse_source", "encoder_hidden_size", "decoder_hidden_size", "encoder_layers", "decoder_layers"),
    *("readout_size", "eos_token_id", "decoder_start_token_id"),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for index.html and the README.md of a static Space")
    parser.add_argument("models", nargs="+", help="folders, or names of models that come with attnzoo")
    options = parser.parse_args(arguments)
    try:
        built = page([Path(model_path(name) if name in SHIPPED else name) for name in options.models])
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "index.html").write_text(built, encoding="utf-8")
    card = options.folder / "README.md"
    if card.exists():
        print(f"{card}: was there before, and is not replaced")
    else:
        shutil.copyfile(HERE / "README.md", card)
    print(f"{options.folder / 'index.html'}: {len(built.encode()):,} bytes")


def page(folders: list[Path]) -> str:
    """The HTML of a page with these models.

    Raises:
        ValueError: a model does not pronounce words, copies, has a part that the page does not compute, or has a
            tokenizer that does what the page cannot.
    """
    texts, blocks, count = [], [], 0
    for number, folder in enumerate(folders):
        model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        if not isinstance(model, AttentionalRNNForConditionalGeneration) or not known_phonemes(tokenizer):
            raise ValueError(f"{folder} is not an attentional RNN that pronounces words")
        refuse_copying(model, "a web page")
        refuse_unknown_parts(model, "a web page")
        tensors = stored(model)
        packed = gzip.compress(b"".join(part for *_, parts in tensors for part in parts), compresslevel=9, mtime=0)
        weights = base64.b64encode(packed).decode()
        blocks.append(f'<script type="text/plain" id="weights-{number}">{weights}</script>')
        details = {
            "config": {name: getattr(model.config, name) for name in FIELDS},
            "maxTokens": model.generation_config.max_new_tokens or 64,
            "temperature": model.config.confidence_temperature,
            "bias": model.config.confidence_bias,
            "tensors": [fields for *fields, _ in tensors],
        }
        texts.append(reading(tokenizer) | {"name": folder.resolve().name, "details": details})
        count += model.num_parameters()
    blocks.insert(0, f'<script type="application/json" id="models">{in_script(texts)}</script>')
    colours = {"light": LIGHT.weights, "dark": DARK.weights}
    blocks.insert(0, f'<script type="application/json" id="colours">{in_script(colours)}</script>')
    values = {
        "/*LIGHT*/": LIGHT.css(),
        "/*DARK*/": DARK.css(),
        "<!--NAMES-->": html.escape(" and ".join(text["name"] for text in texts)),
        "<!--PARAMETERS-->": f"{count / 1e6:.1f} million numbers",
        "<!--SIZE-->": f"{sum(map(len, blocks)) / 1e6:.1f} MB",
        "<!--DATA-->": "\n".join(blocks),
        "/*WORKER*/": "\n".join((HERE / name).read_text(encoding="utf-8") for name in ("model.js", "worker.js")),
        "/*APP*/": (HERE / "app.js").read_text(encoding="utf-8"),
    }
    marks = "|".join(map(re.escape, values))  # in one pass: marks inside of a value stay as they are
    return re.sub(marks, lambda mark: values[mark[0]], (HERE / "page.html").read_text(encoding="utf-8"))


def in_script(data: Any) -> str:
    """JSON for a script element, which a "<" could end."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def stored(model: Any) -> list[tuple[str, int, int, int, list[bytes]]]:
    """Every tensor: its name, its rows and columns, whether it is in eight bits, and its bytes."""
    found = []
    for name, weight in model.state_dict().items():
        array = numbers(weight)
        rows = array if array.ndim == 2 else array[None]
        if array.ndim == 2 and array.size >= SMALL:
            whole, scale = quantise(array)
            found.append((name, *rows.shape, 1, [scale.astype("<f4").tobytes(), whole.tobytes()]))
        else:
            found.append((name, *rows.shape, 0, [rows.astype("<f4").tobytes()]))
    return found


def reading(tokenizer: Any) -> dict[str, Any]:
    """How the page makes ids of letters, and phones of ids.

    Raises:
        ValueError: the tokenizer is none of single letters, or normalises in a way that the page does not know.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    if content["model"]["type"] != "WordLevel" or content["pre_tokenizer"]["type"] != "Split":
        raise ValueError("the page needs a tokenizer of single letters")
    vocabulary = tokenizer.get_vocab()
    dictionaries = dictionaries_among(known_phonemes(tokenizer))
    first = {*ACCENT_TOKENS.values(), *(f"{OPEN}{name}{CLOSE}" for name in dictionaries)}  # tokens of a source
    phones = {f"{OPEN}{phone}{CLOSE}" for phone in known_phonemes(tokenizer)} - first - {*SILVER_TOKENS.values()}
    separator = " " if are_arpabet({token[1:-1] for token in phones}) else ""
    voices = [
        {"label": ACCENTS[accent], "prefixes": {"": token}}
        for accent, token in ACCENT_TOKENS.items()
        if token in vocabulary
    ]
    return {
        "vocabulary": {token: number for token, number in vocabulary.items() if len(token) == 1 or token in first},
        "phones": {vocabulary[token]: token[1:-1] for token in phones},
        "separator": separator,
        "normaliser": normaliser(content["normalizer"]),
        "end": tokenizer("").input_ids,
        "voices": voices
        or languages(dictionaries)
        or [{"label": "ARPABET" if separator else "IPA", "prefixes": {"": ""}}],
    }


def languages(dictionaries: list[str]) -> list[dict[str, Any]]:
    """A voice for each language, or dialect of one: its code, and for every script the token of its dictionary."""
    voices: dict[str, dict[str, str]] = {}
    for name in dictionaries:
        language, script, *dialect = name.split("_")
        voices.setdefault(" ".join((language, *dialect)), {})[script.capitalize()] = f"{OPEN}{name}{CLOSE}"
    return [{"language": language, "prefixes": prefixes} for language, prefixes in voices.items()]


def normaliser(content: Any) -> list[dict[str, Any]]:
    """The steps of a normalizer of tokenizers, as the page does them."""
    if content is None:
        return []
    kind = content["type"]
    if kind == "Sequence":
        return [step for part in content["normalizers"] for step in normaliser(part)]
    if kind == "Replace":
        ((how, pattern),) = content["pattern"].items()
        return [{"type": kind, "regex" if how == "Regex" else "string": pattern, "content": content["content"]}]
    if kind in ("Lowercase", "Strip", "NFC", "NFD", "NFKC", "NFKD"):
        return [{"type": kind}]
    raise ValueError(f"the page does not know the normalizer {kind!r}")


if __name__ == "__main__":
    main()
