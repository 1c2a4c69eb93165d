"""Faults of the network and the Hub, which a test can request."""

import re
from dataclasses import dataclass
from typing import Literal

# refuse: answer with ``status`` and the Hub's ``code``, if it has one
# cut upload: hang up in the middle of the request's body
# cut download: promise the whole body and hang up after half of it
# drop: hang up without an answer
# shorten: send half of the body as if it were all
# flip: flip the last bit of the body
Effect = Literal["refuse", "cut upload", "cut download", "drop", "shorten", "flip"]


@dataclass
class Fault:
    """An ``effect`` on the next ``times`` requests of this method whose path matches the pattern."""

    method: str
    pattern: str
    effect: Effect
    times: int = 1
    status: int = 500
    code: str | None = None

    def applies(self, method: str, path: str) -> bool:
        """Whether the fault applies to this request; if so, one of its ``times`` is used up."""
        if self.times > 0 and method == self.method and re.search(self.pattern, path):
            self.times -= 1
            return True
        return False
