"""A model of ``transformer_models.py`` in CTranslate2. The names of its tokens are their numbers."""

import tempfile
from typing import Any

from torch import Tensor

from attnzoo import SmallTransformerForConditionalGeneration
from attnzoo.export.ctranslate2_folder import specification
from tests.benchmarks.transformer_models import EOS, PAD


def translator(model: SmallTransformerForConditionalGeneration) -> Any:
    """A ``ctranslate2.Translator`` in float32 on one thread."""
    import ctranslate2

    spec = specification(model, [name_of(number) for number in range(model.config.vocab_size)])
    spec.validate()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        return ctranslate2.Translator(folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def name_of(number: int) -> str:
    """The name of a token with this number; CTranslate2 reads and writes words."""
    return f"w{number}"


def translate(system: Any, sources: Tensor, beams: int, steps: int) -> list[list[int]]:
    """``steps`` tokens for each source (B, S), without an end token; padding is at the end of a row."""
    rows = [[name_of(token) for token in row if token != PAD] for row in sources.tolist()]
    results = system.translate_batch(
        rows,
        beam_size=beams,
        max_decoding_length=steps,
        min_decoding_length=steps,
        suppress_sequences=[[name_of(EOS)]],
        max_input_length=0,
    )
    return [[int(name[1:]) for name in result.hypotheses[0]] for result in results]
