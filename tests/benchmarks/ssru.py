"""Times a training step of the Transformer with SSRUs in its decoder, next to one with self-attention.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.ssru

Both models are alike but for ``decoder_mixer``. Their steps take turns, so that other work on the machine slows both.
The rate is the time of self-attention divided by that of the SSRU: above 1 the SSRU is faster.
"""

import argparse
import statistics
import time

import torch

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration

LENGTH, BATCH, VOCABULARY = 25, 64, 8000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=256, help="the width of the model (default: 256)")
    parser.add_argument("--layers", type=int, default=6, help="the layers of either side (default: 6)")
    parser.add_argument("--steps", type=int, default=15, help="the steps of each model (default: 15)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models = {}
    for mixer in ("attention", "ssru"):
        config = SmallTransformerConfig(
            vocab_size=VOCABULARY,
            hidden_size=arguments.width,
            intermediate_size=4 * arguments.width,
            num_hidden_layers=arguments.layers,
            decoder_mixer=mixer,
        )
        model = SmallTransformerForConditionalGeneration(config).train()
        models[mixer] = model, torch.optim.AdamW(model.parameters(), fused=True)
    batch = {name: torch.randint(3, VOCABULARY, (BATCH, LENGTH)) for name in ("input_ids", "labels")}
    seconds: dict[str, list[float]] = {mixer: [] for mixer in models}
    for _ in range(1 + arguments.steps):
        for mixer, (model, optimizer) in models.items():
            start = time.perf_counter()
            model(**batch, smoothing=0.1, skip_logits=True).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds[mixer].append(time.perf_counter() - start)
    medians = {mixer: statistics.median(times[1:]) for mixer, times in seconds.items()}
    for mixer, median in medians.items():
        print(f"{mixer:10} {median:.3f} s")
    print(f"rate       {medians['attention'] / medians['ssru']:.2f}")


if __name__ == "__main__":
    main()
