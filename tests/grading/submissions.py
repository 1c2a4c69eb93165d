"""Files that students hand in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnzoo.grading import Assignment

Check = Callable[[Path, str, Assignment], dict[str, Any]]  # as check_apart

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
# A report of its own, written to every file that is open.
REPORTING = """
import json, os
report = json.dumps({"findings": [], "checked": ["padding"], "not_checked": {}, "assumed": [], "asserted": []})
for number in range(3, 100):
    try:
        os.write(number, report.encode())
    except OSError:
        pass
"""
# Right code, and what must not keep it from its points.
STRANGE = {
    "forks": RIGHT + "\nimport os\nos.fork()",
    "closes its output": RIGHT + "\nimport sys\nsys.stdout.close()",
    "has no output": RIGHT + "\nimport sys\nsys.stdout = None",
    "replaces modules": RIGHT + "\nimport sys\nfor name in [*sys.modules]:\n"
    "    if name.startswith('attnzoo'):\n        sys.modules[name] = None",
    "leaves folders in folders": RIGHT + "\nimport os\nfor _ in range(1500):\n    os.mkdir('x')\n    os.chdir('x')",
}
# Source, the problem that is named, and words of its place: of what ends or blocks the process, and of errors.
ENDING = {
    "ends by a signal": ("import os\nos.kill(os.getpid(), 11)", "ends_the_process", "with the code -11"),
    "a message that is no text": ("raise ValueError('\\udc80 no')", "does_not_load", "ValueError: ? no (line 1)"),
    "writes a report": (REPORTING + "os._exit(0)", "ends_the_process", "with the code 0"),
    "closes all files": ("import os\nos.closerange(3, 100)\n" + RIGHT, "ends_the_process", "with the code 1"),
    "loops for ever": ("while True: pass", "too_slow", "it was ended after"),
    "ignores the limit": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "too_slow",
        "it was ended after",
    ),
    "all memory": ("import torch\nx = [torch.ones(2**26) for _ in range(100)]", "too_much_memory", "memory"),
}
RAISING = {
    "exits when it is called": (
        RIGHT.replace("scores = self.q", "raise SystemExit(0)\n        scores = self.q"),
        "ends_the_process",
        "exit(0)",
    ),
    "exits when it is imported": ("import sys\nsys.exit(0)", "ends_the_process", "exit(0)"),
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
    "a message that raises": (
        "class Error(Exception):\n    def __str__(self): raise ValueError\nraise Error",
        "does_not_load",
        "Error: it has no message (line 3)",
    ),
    "a long message": ("raise ValueError('x' * 5_000_000)", "does_not_load", "xxx (line 1)"),
    "interrupts": ("raise KeyboardInterrupt", "does_not_load", "KeyboardInterrupt"),
    "has every name": ("def __getattr__(name): return 5", "cannot_be_called", "got int"),
}
