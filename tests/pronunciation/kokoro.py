"""A tiny model with Kokoro's phones and both accents: its outputs have the right form and no meaning."""

import string
from pathlib import Path

import torch
from attnzoo.training.tasks.letter_tokenizer import letter_phoneme_tokenizer, word_normalizer

from attnzoo.phone_sets import ACCENT_TOKENS
from tests.factory import tiny_model

PHONES = "AIOQWYabdefhijklmnpstuvwzæðŋɑɒɔəɛɜɡɪɹɾʃʊʌʒʤʧˈˌːθᵊᵻɐʔ"
ACCENTS = [token[1:-1] for token in ACCENT_TOKENS.values()]


def save_kokoro_model(folder: Path, variant: str = "luong-lstm-general-feeding") -> Path:
    normalizer = word_normalizer("strip_accents")
    tokenizer = letter_phoneme_tokenizer(string.ascii_lowercase + "'", [*PHONES, *ACCENTS], normalizer)
    model = tiny_model(variant, dtype=torch.float32, vocab_size=len(tokenizer))
    model.generation_config.num_beams, model.generation_config.max_new_tokens = 3, 30
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
