"""Stand-in for spacy, which OpenNMT-py and eole import for data filters that nothing here uses."""
