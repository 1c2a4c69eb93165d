"""JoeyNMT 2.3, by ``build_model`` and ``search``.

Its encoder packs the source and its attention is masked: padding changes nothing. The loss is its ``XentLoss`` on the
log-probabilities of its decoder, without the count of correct words that ``Model.forward`` adds at the cost of an
argmax over the vocabulary. Without input feeding it takes its steps one by one all the same.
"""

from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from torch import Tensor

from tests.benchmarks.systems.protocol import STEPS, System, serve
from tests.benchmarks.workload import DECODER, EMBEDDING, ENCODER, SPECIAL, VOCABULARY, Pairs, padded

PAD, BOS, EOS = 1, 2, 3


class JoeyNMT(System):
    """A recurrent model of JoeyNMT; the decoder starts from the encoder's last state ("last", its cheapest)."""

    package = "joeynmt"
    notes = "loss without its count of correct words"

    def __init__(self, score: str, has_input_feeding: bool) -> None:
        tokens = SimpleNamespace(
            unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
            unk_id=0, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None,
        )  # fmt: skip
        words = [f"w{i}" for i in range(SPECIAL, VOCABULARY)]
        source, target = (Vocabulary(words, tokens) for _ in range(2))
        embeddings = {"embedding_dim": EMBEDDING}
        config = {
            "encoder": {
                "type": "recurrent",
                "rnn_type": "lstm",
                "embeddings": embeddings,
                "hidden_size": ENCODER,
                "bidirectional": True,
                "num_layers": 1,
                "dropout": 0.0,
            },
            "decoder": {
                "type": "recurrent",
                "rnn_type": "lstm",
                "embeddings": embeddings,
                "hidden_size": DECODER,
                "num_layers": 1,
                "dropout": 0.0,
                "hidden_dropout": 0.0,
                "attention": {"general": "luong", "additive": "bahdanau"}[score],
                "input_feeding": has_input_feeding,
                "init_hidden": "last",
            },
        }
        self.model: Any = build_model(config, src_vocab=source, trg_vocab=target)
        self.model.loss_function = ("crossentropy", 0.0)

    def batch(self, pairs: Pairs) -> Batch:
        source = [[*row, EOS] for row in pairs.sources]
        return Batch(
            src=padded(source, PAD),
            src_length=torch.tensor([len(row) for row in source]),
            src_prompt_mask=None,
            trg=padded([[BOS, *row, EOS] for row in pairs.targets], PAD),
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=torch.device("cpu"),
            pad_index=PAD,
            eos_index=EOS,
        )

    def loss(self, batch: Batch) -> Tensor:
        logits, _, _, _ = self.model._encode_decode(**vars(batch))
        summed = self.model.loss_function(logits.log_softmax(dim=-1), **vars(batch))
        return summed / batch.ntokens

    def decode(self, batch: Batch, beams: int) -> int:
        best, _, _ = search(
            self.model,
            batch,
            max_output_length=STEPS,
            min_output_length=STEPS,
            beam_size=beams,
            beam_alpha=1.0,
        )
        return best.shape[1]


if __name__ == "__main__":
    serve(JoeyNMT)
