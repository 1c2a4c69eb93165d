"""What holds for all tests."""

import os

# The models are tiny: a second thread would only wait for the first. Set before torch is imported, and inherited by
# the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
