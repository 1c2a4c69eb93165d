"""Tiny models as Marian files hold them."""

from dataclasses import replace

import numpy as np

from attnzoo.firefox.int8 import is_quantised
from attnzoo.firefox.marian_model import MarianModel
from attnzoo.firefox.student_options import StudentOptions

SIZES = StudentOptions(
    hidden_size=8,
    intermediate_size=12,
    num_attention_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=1,
    source_vocab_size=20,
    target_vocab_size=20,
    shared_vocabulary=True,
)
# For the vocabularies of the tests.
VARIED = replace(
    SIZES,
    hidden_size=64,
    intermediate_size=96,
    num_decoder_layers=2,
    source_vocab_size=1000,
    target_vocab_size=1000,
)
# The smallest of Mozilla's sizes.
TINY = StudentOptions(
    hidden_size=256,
    intermediate_size=1536,
    num_attention_heads=8,
    num_encoder_layers=6,
    num_decoder_layers=2,
    source_vocab_size=32_000,
    target_vocab_size=32_000,
    shared_vocabulary=True,
)


def random_model(options: StudentOptions = SIZES, seed: int = 0) -> MarianModel:
    """A model with random weights in float32."""
    draw = np.random.default_rng(seed)
    items = {}
    for name, shape in options.shapes().items():
        spread = 1 if "ln_scale" in name else shape[1] ** -0.5 if "Wemb" in name else shape[0] ** -0.5
        items[name] = (draw.standard_normal(shape) * spread + ("ln_scale" in name)).astype(np.float32)
    return MarianModel(items, options.to_yaml(), {})


def random_int8_model(options: StudentOptions = SIZES, seed: int = 0) -> MarianModel:
    """The same in eight bits."""
    model = random_model(options, seed)
    names = [name for name in model.items if is_quantised(name) and name != "encoder_Wemb"]
    return model.in_int8({name: 20.0 + i for i, name in enumerate(names)})


def varied_model(seed: int = 0, options: StudentOptions = VARIED) -> MarianModel:
    """A model that writes different texts, some words of each once.

    With large biases, or one layer of the decoder, it repeats one word.
    """
    model = random_model(options, seed)
    biases = [name for name, item in model.items.items() if len(item) == 1 and "ln_scale" not in name]
    model.items.update({name: model.floats(name) * np.float32(0.1) for name in biases})
    return model
