"""Stand-in for scikit-learn, which fairseq imports for the scores of classifiers that nothing here trains."""
