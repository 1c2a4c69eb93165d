"""English text to phonemes: words, numbers, initialisms and punctuation in, ARPABET, Kokoro's phones or IPA out.

Importing ``attnzoo`` does not import this package.
"""

from .misaki import MisakiFallback, phonemize
from .pronouncer import Options, Pronouncer
from .spoken import Variant, Word
from .word_model import confidences

__all__ = ["MisakiFallback", "Options", "Pronouncer", "Variant", "Word", "confidences", "phonemize"]
