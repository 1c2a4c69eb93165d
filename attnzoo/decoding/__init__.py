"""Fast greedy search, sampling and beam search for the generating models: :func:`attnzoo.search`."""
