"""fairseq 0.12, by ``LSTMModel``, its cross-entropy criterion and ``SequenceGenerator``.

It is the fork fairseq-fixed, which runs on a present Python. Its encoder packs the source and its attention is masked:
padding changes nothing. Its only recurrent model is Luong's general score with input feeding. Its search forces an end
token after the last word, so 24 words take 25 steps.
"""

from argparse import Namespace
from typing import Any

import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.lstm import LSTMModel
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from tests.benchmarks.systems.protocol import STEPS, System, serve
from tests.benchmarks.workload import DECODER, EMBEDDING, ENCODER, SPECIAL, VOCABULARY, Pairs, padded

PAD, EOS = 1, 2


class Fairseq(System):
    """The model "lstm" of fairseq."""

    package = "fairseq-fixed"
    variants = ("general_feeding",)

    def __init__(self, score: str, has_input_feeding: bool) -> None:
        words = Dictionary()
        for i in range(SPECIAL, VOCABULARY):
            words.add_symbol(f"w{i}")
        if (len(words), words.pad(), words.eos()) != (VOCABULARY, PAD, EOS):
            raise RuntimeError("fairseq's dictionary is not of the size and order that this file expects")
        task = Namespace(source_dictionary=words, target_dictionary=words)
        options = Namespace(
            dropout=0.0,
            encoder_embed_dim=EMBEDDING,
            encoder_hidden_size=ENCODER,
            encoder_layers=1,
            encoder_bidirectional=True,
            decoder_embed_dim=EMBEDDING,
            decoder_hidden_size=DECODER,
            decoder_out_embed_dim=DECODER,
            decoder_layers=1,
            decoder_attention="1",
            criterion="cross_entropy",
            max_source_positions=2048,
        )
        self.model: Any = LSTMModel.build_model(options, task)
        self.model.decoder.make_generation_fast_(need_attn=False)  # as fairseq-generate does; training has none anyway
        self.criterion = CrossEntropyCriterion(task, sentence_avg=False)
        self.words = words

    def batch(self, pairs: Pairs) -> dict[str, Any]:
        source = [[*row, EOS] for row in pairs.sources]
        return {
            "net_input": {
                "src_tokens": padded(source, PAD, left=True),
                "src_lengths": torch.tensor([len(row) for row in source]),
                "prev_output_tokens": padded([[EOS, *row] for row in pairs.targets], PAD),
            },
            "target": padded([[*row, EOS] for row in pairs.targets], PAD),
            "ntokens": pairs.tokens,
        }

    def loss(self, batch: dict[str, Any]) -> Tensor:
        summed, tokens, _ = self.criterion(self.model, batch)
        return summed / tokens

    def decode(self, batch: dict[str, Any], beams: int) -> int:
        search = SequenceGenerator([self.model], self.words, beam_size=beams, max_len_b=STEPS - 1, min_len=STEPS - 1)
        results = search.generate([self.model], {"net_input": batch["net_input"]})
        return max(len(best[0]["tokens"]) for best in results)


if __name__ == "__main__":
    serve(Fairseq)
