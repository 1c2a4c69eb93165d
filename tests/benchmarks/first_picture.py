"""The time until the page of 512 tokens with 144 heads shows its first picture, in headless Chromium.

``python -m tests.benchmarks.first_picture`` prints the median of five loads, from opening the file until the state of
the page is "ready": the maps of all heads are drawn. The file is written before. Needs Chromium.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

from attnzoo.viewer import AttentionMaps, AttentionView
from attnzoo.viewer.attention_view import Tokens
from tests.chromium import Browser
from tests.viewer.test_page_in_browser import READY, random_weights

LAYERS, HEADS, LENGTH, LOADS = 12, 12, 512, 5


def main() -> None:
    """Print the size of the page and the seconds."""
    names = Tokens([], [f"w{number}" for number in range(LENGTH)], list(range(LENGTH)))
    weights = {layer: random_weights(HEADS, LENGTH, LENGTH, seed=layer) for layer in range(LAYERS)}
    made = AttentionView("512 tokens", "Model", {"self": AttentionMaps(names, names, weights)})
    seconds = []
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = made.save(Path(folder) / "page.html")
        for _ in range(LOADS):
            browser.call("Page.navigate", url="about:blank")
            start = time.perf_counter()
            browser.open(page, READY)
            seconds.append(time.perf_counter() - start)
        print(f"{LENGTH} tokens, {LAYERS * HEADS} heads, {page.stat().st_size / 1e6:.1f} MB")
    print(f"first picture after {median(seconds):.2f} s (median of {LOADS}, {min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main()
