"""Attention code as students of a course write it, right and faulty, and one table of how to hand it over."""
