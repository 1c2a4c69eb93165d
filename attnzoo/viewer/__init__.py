"""Attention made visible: an interactive page, figures (``pip install attnzoo[plots]``), sentences as HTML."""

from .attention_view import AttentionMaps, AttentionView
from .pictures import overall_attention, plot_alignments, plot_heads, plot_sentence, sentences_html

__all__ = [
    "AttentionMaps",
    "AttentionView",
    "overall_attention",
    "plot_alignments",
    "plot_heads",
    "plot_sentence",
    "sentences_html",
]
