"""A tiny model of several languages, trained here: every letter has one phone, which depends on the dictionary."""

import itertools
from pathlib import Path

import torch
from attnzoo.training.tasks.letter_tokenizer import letter_phoneme_tokenizer, word_normalizer

from attnzoo.phonemes import CLOSE, OPEN, bracketed
from tests.factory import tiny_model

# The phones of the letters of each dictionary.
SOUNDS = {
    "hun_latn": {"a": "ɒ", "s": "ʃ", "o": "o"},
    "hbs_latn": {"a": "a", "s": "s", "o": "o"},
    "hbs_cyrl": {"а": "a", "с": "s", "о": "o"},
    "por_latn_bz": {"a": "a", "s": "s", "o": "u"},
    "por_latn_po": {"a": "ɐ", "s": "ʃ", "o": "u"},
    "kor_hang": {"ᄉ": "sʰ", "ᅩ": "o", "ᅡ": "a"},
    "bod_tibt": {"ས": "s", "་": "ː"},
}
STEPS, LONGEST = 150, 3


def save_model_of_languages(folder: Path) -> Path:
    letters = sorted({letter for sounds in SOUNDS.values() for letter in sounds})
    phones = sorted({phone for sounds in SOUNDS.values() for phone in sounds.values()})
    tokenizer = letter_phoneme_tokenizer(letters, [*phones, *SOUNDS], word_normalizer("nfd"))
    sizes = {
        "embedding_size": 32,
        "encoder_hidden_size": 32,
        "decoder_hidden_size": 32,
        "readout_size": 32,
        "dropout": 0.0,
    }
    model = tiny_model("luong-lstm-general-feeding", std=0.2, dtype=torch.float32, vocab_size=len(tokenizer), **sizes)
    words = [
        (name, word)
        for name, sounds in SOUNDS.items()
        for length in range(1, LONGEST + 1)
        for word in itertools.product(sounds, repeat=length)
    ]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        some = [words[place] for place in torch.randint(len(words), (64,), generator=generator)]
        batch = tokenizer(
            [f"{OPEN}{name}{CLOSE}{''.join(word)}" for name, word in some],
            text_target=[bracketed(" ".join(SOUNDS[name][letter] for letter in word)) for name, word in some],
            padding=True,
            return_tensors="pt",
        )
        labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
        inputs = {name: batch[name].to(model.device) for name in ("input_ids", "attention_mask")}
        loss = model(**inputs, labels=labels.to(model.device)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    model.generation_config.max_new_tokens = 2 * LONGEST
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
