"""Attention made visible: an interactive page, and pictures (the extra ``plots``)."""

from .attention_view import AttentionMaps, AttentionView
from .page import save_page
from .pictures import overall_attention, plot_alignments, plot_heads, plot_sentence
from .tokens import tokens_of

__all__ = [
    "AttentionMaps",
    "AttentionView",
    "overall_attention",
    "plot_alignments",
    "plot_heads",
    "plot_sentence",
    "save_page",
    "tokens_of",
]
