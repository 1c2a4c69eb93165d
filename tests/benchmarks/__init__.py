"""The benchmark against other toolkits: ``python -m tests.benchmarks.run``."""
