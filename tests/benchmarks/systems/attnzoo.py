"""The installed attnzoo: ``forward`` with labels, and ``generate``."""

# ruff: noqa: E402
import inspect
import sys
from typing import Any

# The tests need these packages, and that command does not install them. Transformers would import them: 45 MB.
sys.modules["scipy"] = sys.modules["accelerate"] = None  # type: ignore[assignment]

from torch import Tensor

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, search
from tests.benchmarks.systems.protocol import STEPS, System, serve
from tests.benchmarks.workload import DECODER, VOCABULARY, Pairs, padded

PAD, BOS, EOS = 0, 1, 2


class AttnZoo(System):
    """Luong's wiring, biLSTM encoder. Embeddings and each direction of the encoder have half the ``width``."""

    package = "attnzoo"
    notes = "through forward(labels=..., skip_logits=True) and generate(custom_generate=search)"

    def __init__(self, score: str, has_input_feeding: bool, width: int = DECODER) -> None:
        self.model: Any = AttentionalRNNForConditionalGeneration(
            AttentionalRNNConfig(
                wiring="luong",
                score=score,  # type: ignore[arg-type]
                input_feeding=has_input_feeding,
                cell="lstm",
                vocab_size=VOCABULARY,
                embedding_size=width // 2,
                encoder_hidden_size=width // 2,
                decoder_hidden_size=width,
                attention_size=width,
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                decoder_start_token_id=BOS,
            )
        )
        accepts = inspect.signature(self.model.forward).parameters
        self.options = {"skip_logits": True} if "skip_logits" in accepts else {}

    def batch(self, pairs: Pairs) -> Any:
        input_ids = padded([[*source, EOS] for source in pairs.sources], PAD)
        labels = padded([[*target, EOS] for target in pairs.targets], -100)
        return {"input_ids": input_ids, "attention_mask": (input_ids != PAD).long(), "labels": labels}

    def loss(self, batch: Any) -> Tensor:
        return self.model(**batch, **self.options).loss

    def decode(self, batch: Any, beams: int) -> int:
        sequences = self.model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            num_beams=beams,
            do_sample=False,
            custom_generate=search,
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
        )
        return sequences.shape[1] - 1


if __name__ == "__main__":
    serve(AttnZoo)
