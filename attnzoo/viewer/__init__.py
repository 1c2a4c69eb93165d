"""Attention made visible: pictures and pages."""

from .pictures import plot_alignments, plot_heads, plot_sentence, sentences_html

__all__ = ["plot_alignments", "plot_heads", "plot_sentence", "sentences_html"]
