"""Attention made visible: pictures and pages."""
