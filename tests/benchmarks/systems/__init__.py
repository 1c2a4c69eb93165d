"""One file per system, each run as a module in its own environment; ``protocol.py`` is what they share."""
