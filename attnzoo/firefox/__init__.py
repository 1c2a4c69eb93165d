"""Files of Firefox's translation models: Marian's ``.bin`` and ``.npz``, their options, SentencePiece's ``.spm``."""
