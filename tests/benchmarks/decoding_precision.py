"""Decoding in float32 and in bf16: the metric of a model's test split, and the time.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.decoding_precision attentional-rnn-g2p-cmudict --num-beams 5

The model is loaded by ``from_pretrained(dtype=...)`` and decodes by ``attnzoo.search``, as ``attnzoo evaluate`` does.
"""

import argparse
import time
from pathlib import Path

import torch
from attnzoo.training.card import describe
from attnzoo.training.evaluate import decoding_of, task_for
from transformers import AutoTokenizer

from attnzoo.shipped_models import named_folder

from .speeds import STORE, store


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a checkpoint folder, or the name of a shipped model")
    parser.add_argument("--num-beams", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    parser.add_argument("--store", action="store_true", help=STORE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(named_folder(options.folder))
    task, tokenizer = task_for(folder, options.set, "test"), AutoTokenizer.from_pretrained(folder)
    rows = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = task.auto_class.from_pretrained(folder, dtype=dtype)
        decoding = decoding_of(task, model, options.num_beams)
        start = time.process_time()
        scores = task.measure("test", task.predict(model, tokenizer, "test", **decoding))
        seconds = round(time.process_time() - start)
        print(f"{dtype}: {describe(task, scores)}; {seconds} seconds of the processor")
        row = f"`{options.folder}`, {str(dtype).removeprefix('torch.')}, beam {options.num_beams}"
        rows[row] = {"PER": scores["per"], "WER": scores["wer"], "seconds": seconds}
    if options.store:
        store("decoding_precision", 1, rows)


if __name__ == "__main__":
    main()
