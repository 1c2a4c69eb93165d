"""eole 0.6, OpenNMT-py's successor, by ``EncoderDecoderModel`` and its criterion; training only.

Its encoder does not pack the source: the backward LSTM reads the padding first, so the loss of a sentence depends on
the other sentences of its batch. This saves the packing, but its results are not those of the other systems.
"""

from types import SimpleNamespace
from typing import Any

import torch
from eole.config.models import RnnModelConfig
from eole.models.model import EncoderDecoderModel
from torch import Tensor, nn

from tests.benchmarks.systems.protocol import System, serve
from tests.benchmarks.workload import DECODER, EMBEDDING, SPECIAL, VOCABULARY, Pairs, padded

PAD, BOS, EOS = 1, 2, 3


class Eole(System):
    """A recurrent model of eole."""

    package = "eole"
    decodes = False
    notes = "does not pack: padding changes its results"

    def __init__(self, score: str, has_input_feeding: bool) -> None:
        attention = {"general": "general", "additive": "mlp"}[score]
        config: Any = RnnModelConfig(
            embeddings={"src_word_vec_size": EMBEDDING, "tgt_word_vec_size": EMBEDDING},
            encoder={"layers": 1, "hidden_size": DECODER, "rnn_type": "LSTM"},
            decoder={"layers": 1, "hidden_size": DECODER, "rnn_type": "LSTM", "global_attention": attention},
            input_feed=int(has_input_feeding),
        )
        config.encoder.encoder_type = "brnn"
        config.decoder.bidirectional_encoder = True
        words = {word: i for i, word in enumerate(("<unk>", "<blank>", "<s>", "</s>"))}
        words |= {f"w{i}": i for i in range(SPECIAL, VOCABULARY)}
        vocabularies = {"src": words, "tgt": words, "specials": {"pad_token": "<blank>"}}
        running = SimpleNamespace(dropout=[0.0], quant_type="", quant_layers=[], lora_layers=[], lora_embedding=False)
        self.model: Any = EncoderDecoderModel.build(config, vocabularies, running)
        self.criterion = nn.CrossEntropyLoss(
            ignore_index=PAD, reduction="sum"
        )  # what its LossCompute.from_config makes

    def batch(self, pairs: Pairs) -> dict[str, Tensor]:
        source = [[*row, EOS] for row in pairs.sources]
        return {
            "src": padded(source, PAD),
            "src_len": torch.tensor([len(row) for row in source]),
            "tgt": padded([[BOS, *row, EOS] for row in pairs.targets], PAD),
            "tokens": torch.tensor(pairs.tokens),
        }

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        outputs = self.model(batch["src"], batch["tgt"], batch["src_len"]).dec_out
        logits = self.model.generator(outputs.flatten(0, 1))
        return self.criterion(logits, batch["tgt"][:, 1:].flatten()) / batch["tokens"]


if __name__ == "__main__":
    serve(Eole)
