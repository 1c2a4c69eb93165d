"""Times the Transformer with SSRUs in its decoder next to one with self-attention: a training step, and a search.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.ssru
    OMP_NUM_THREADS=1 python -m tests.benchmarks.ssru --width 192 --layers 6 --decoder-layers 2

Both models are alike but for ``decoder_mixer``, and write as many tokens. They take turns, so that other work on the
machine slows both. A rate is the time of self-attention divided by that of the SSRU: above 1 the SSRU is faster.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration, search

LENGTH, BATCH, VOCABULARY = 25, 64, 8000
MIXERS = ("attention", "ssru")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=256, help="the width of the model (default: 256)")
    parser.add_argument("--layers", type=int, default=6, help="the layers of the encoder (default: 6)")
    parser.add_argument("--decoder-layers", type=int, default=6, help="the layers of the decoder (default: 6)")
    parser.add_argument("--steps", type=int, default=15, help="the steps of each model (default: 15)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models = {}
    for mixer in MIXERS:
        config = SmallTransformerConfig(
            vocab_size=VOCABULARY,
            hidden_size=arguments.width,
            intermediate_size=4 * arguments.width,
            num_hidden_layers=arguments.layers,
            num_decoder_layers=arguments.decoder_layers,
            decoder_mixer=mixer,
        )
        models[mixer] = SmallTransformerForConditionalGeneration(config)
    batch = {name: torch.randint(3, VOCABULARY, (BATCH, LENGTH)) for name in ("input_ids", "labels")}
    optimizers = {mixer: torch.optim.AdamW(model.parameters(), fused=True) for mixer, model in models.items()}

    def train(mixer: str) -> None:
        models[mixer].train()(**batch, smoothing=0.1, skip_logits=True).loss.backward()
        optimizers[mixer].step()
        optimizers[mixer].zero_grad()

    def translate(mixer: str) -> None:
        length = {"min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
        models[mixer].eval().generate(batch["input_ids"][:1], custom_generate=search, num_beams=1, **length)

    compare("a training step", train, arguments.steps)
    compare("a search for one source", translate, 4 * arguments.steps)


def compare(name: str, run: Callable[[str], None], rounds: int) -> None:
    """Print the medians for both mixers, and the rate."""
    seconds: dict[str, list[float]] = {mixer: [] for mixer in MIXERS}
    for _ in range(1 + rounds):
        for mixer, times in seconds.items():
            start = time.perf_counter()
            run(mixer)
            times.append(time.perf_counter() - start)
    attention, ssru = (1000 * statistics.median(times[1:]) for times in seconds.values())
    print(f"{name}: self-attention {attention:.1f} ms, SSRU {ssru:.1f} ms, rate {attention / ssru:.2f}")


if __name__ == "__main__":
    main()
