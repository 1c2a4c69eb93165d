"""Alignments made better and put to use: the best heads, two directions, markup carried over."""

from .choosing import HeadChoice, choose_heads, choose_heads_by_agreement
from .markup import transfer_markup
from .symmetrising import METHODS, align_both_ways, symmetrise

__all__ = [
    "METHODS",
    "HeadChoice",
    "align_both_ways",
    "choose_heads",
    "choose_heads_by_agreement",
    "symmetrise",
    "transfer_markup",
]
