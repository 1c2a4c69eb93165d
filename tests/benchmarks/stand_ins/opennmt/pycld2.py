"""Stand-in for pycld2, which OpenNMT-py and eole import for data filters that nothing here uses."""
