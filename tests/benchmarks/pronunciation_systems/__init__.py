"""Scripts that run in the environments of other programs; see ``tests/benchmarks/pronunciation_peers.py``."""
