"""Attention made visible: figures (``pip install attnzoo[plots]``) and an HTML page."""

from .pictures import overall_attention, plot_alignments, plot_heads, plot_sentence, sentences_html

__all__ = ["overall_attention", "plot_alignments", "plot_heads", "plot_sentence", "sentences_html"]
