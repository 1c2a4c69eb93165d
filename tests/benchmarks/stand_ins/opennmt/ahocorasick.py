"""Stand-in for ahocorasick, which OpenNMT-py and eole import for data filters that nothing here uses."""
