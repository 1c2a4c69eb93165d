"""One file for each system, each run as a module in its own environment; ``protocol.py`` is shared by all."""
