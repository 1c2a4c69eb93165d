"""Files that students hand in."""

RIGHT = """
import math
from torch import nn

class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask=None):
        scores = self.q(x) @ self.k(x).mT / math.sqrt(x.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask[:, None] == 0, -1e9)
        return scores.softmax(-1) @ self.v(x)
"""
FAULTY = RIGHT.replace(" / math.sqrt(x.shape[-1])", "").replace("-1e9", "-1e-9")  # scale_missing, padding_attended
PRINTING = RIGHT + "\nimport os\nos.write(1, b'spam ' * 300_000)\n"
# Source, the problem that is named, and words of its place.
BROKEN = {
    "exits when it is called": (
        RIGHT.replace("scores = self.q", "raise SystemExit(0)\n        scores = self.q"),
        "ends_the_process",
        "exit(0)",
    ),
    "exits when it is imported": ("import sys\nsys.exit(0)", "ends_the_process", "exit(0)"),
    "ends at once": ("import os\nos._exit(0)", "ends_the_process", "with the code 0"),
    "ends by a signal": ("import os\nos.kill(os.getpid(), 11)", "ends_the_process", "with the code -11"),
    "no such import": ("import nothing_like_it", "does_not_load", "No module named 'nothing_like_it' (line 1)"),
    "no Python": ("class Attention(:", "does_not_load", "SyntaxError"),
    "no such name": ("x = 1", "does_not_load", "the file has no Attention"),
    "needs a size": (
        RIGHT.replace("width=16", "width"),
        "cannot_be_made",
        "Attention takes (width), and is given (): missing a required argument: 'width'",
    ),
    "raises while it is made": (
        RIGHT.replace("super()", "raise ValueError('no')\n        super()"),
        "cannot_be_made",
        "no",
    ),
    "raises": (
        RIGHT.replace("scores = self.q", "raise ValueError('no')\n        scores = self.q"),
        "cannot_be_called",
        "no",
    ),
    "loops for ever": ("while True: pass", "too_slow", "after 6 seconds"),
    "all memory": ("import torch\nx = [torch.ones(2**26) for _ in range(100)]", "too_much_memory", "memory"),
}
