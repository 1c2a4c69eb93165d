"""The number of threads of a training, depending on other programs."""

import math
import os
import time
from pathlib import Path

import torch

STATISTICS = Path("/proc/stat")  # of Linux; elsewhere the average load of the last minute is used


def take_free_processors() -> None:
    """Let torch use as many threads as processors are free, at least one; OMP_NUM_THREADS, if set, decides instead.

    torch takes a thread for every processor. Its threads wait for each other at every product. So if other programs
    run, one thread too many makes a training several times slower than one too few.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), free_processors()))


def free_processors(seconds: float = 0.5) -> int:
    """The processors that were idle for these seconds, at least 1."""
    before, started = _idle_seconds(), time.perf_counter()
    if before is None:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        return max(1, (os.cpu_count() or 1) - round(load))
    time.sleep(seconds)
    idle = ((_idle_seconds() or before) - before) / (time.perf_counter() - started)
    return max(1, math.floor(idle + 0.5))


def _idle_seconds() -> float | None:
    """Seconds that all processors together were idle since the machine started; None if the system reports nothing."""
    try:
        first, *_ = STATISTICS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return int(first.split()[4]) / os.sysconf("SC_CLK_TCK")
