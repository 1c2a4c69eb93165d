"""Stand-in for SciPy, which fairseq imports for the scores of classifiers that nothing here trains."""
