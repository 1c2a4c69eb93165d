"""OpenNMT-py 3.5, by ``build_base_model``, ``LossCompute``'s criterion and ``Translator``.

Its encoder packs the source and its attention is masked: padding changes nothing. The loss is the criterion of its
``LossCompute`` on its generator, without the statistics that ``LossCompute.forward`` adds. Its "mlp" score projects
the keys again at every step. Greedy search is its ``GreedySearch`` (random_sampling_topk 1), faster than a beam of 1.
"""

from argparse import Namespace
from typing import Any

import onmt.opts
import pyonmttok
import torch
from onmt.constants import DefaultTokens
from onmt.model_builder import build_base_model
from onmt.translate import GNMTGlobalScorer
from onmt.translate.translator import Translator
from onmt.utils.loss import LossCompute
from onmt.utils.parse import ArgumentParser
from torch import Tensor

from tests.benchmarks.systems.protocol import STEPS, System, serve
from tests.benchmarks.workload import DECODER, EMBEDDING, SPECIAL, VOCABULARY, Pairs, padded

SPECIALS = [DefaultTokens.UNK, DefaultTokens.PAD, DefaultTokens.BOS, DefaultTokens.EOS]
PAD, BOS, EOS = 1, 2, 3


class OpenNMT(System):
    """A recurrent model of OpenNMT-py; its encoder is as wide as its decoder, half for each direction."""

    package = "OpenNMT-py"
    notes = "loss without its statistics"

    def __init__(self, score: str, has_input_feeding: bool) -> None:
        options = _options()
        options.encoder_type, options.decoder_type = "brnn", "rnn"
        options.brnn = True
        options.rnn_type = "LSTM"
        options.enc_layers = options.dec_layers = 1
        options.enc_hid_size = options.dec_hid_size = DECODER
        options.src_word_vec_size = options.tgt_word_vec_size = EMBEDDING
        options.dropout = [0.0]
        options.attention_dropout = [0.0]
        options.global_attention = {"general": "general", "additive": "mlp"}[score]
        options.input_feed = int(has_input_feeding)
        words = [f"w{i}" for i in range(SPECIAL, VOCABULARY)]
        self.vocabularies = {
            side: pyonmttok.build_vocab_from_tokens(words, special_tokens=SPECIALS) for side in ("src", "tgt")
        } | {"decoder_start_token": DefaultTokens.BOS}
        if len(self.vocabularies["tgt"]) != VOCABULARY or self.vocabularies["tgt"][DefaultTokens.EOS] != EOS:
            raise RuntimeError("OpenNMT-py's vocabulary is not of the size and order that this file expects")
        self.model: Any = build_base_model(options, self.vocabularies)
        self.criterion = LossCompute.from_opts(options, self.model, self.vocabularies["tgt"]).criterion

    def batch(self, pairs: Pairs) -> dict[str, Tensor]:
        source = [[*row, EOS] for row in pairs.sources]
        return {
            "src": padded(source, PAD).unsqueeze(2),
            "srclen": torch.tensor([len(row) for row in source]),
            "tgt": padded([[BOS, *row, EOS] for row in pairs.targets], PAD).unsqueeze(2),
            "tokens": torch.tensor(pairs.tokens),
        }

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        outputs, _ = self.model(batch["src"], batch["tgt"], batch["srclen"])
        logits = self.model.generator(outputs.flatten(0, 1))
        return self.criterion(logits, batch["tgt"][:, 1:, 0].flatten()) / batch["tokens"]

    def decode(self, batch: dict[str, Tensor], beams: int) -> int:
        translator = Translator(
            self.model,
            self.vocabularies,
            min_length=STEPS,
            max_length=STEPS,
            max_length_ratio=0,
            beam_size=beams,
            random_sampling_topk=int(beams == 1),
            global_scorer=GNMTGlobalScorer(0.0, 0.0, "none", "none"),
            seed=1,
        )
        result = translator.translate_batch({"src": batch["src"], "srclen": batch["srclen"]}, attn_debug=False)
        return max(len(best[0]) for best in result["predictions"])


def _options() -> Namespace:
    """OpenNMT-py's own defaults."""
    parser = ArgumentParser()
    onmt.opts.model_opts(parser)
    onmt.opts.distributed_opts(parser)
    onmt.opts._add_train_general_opts(parser)
    options, _ = parser.parse_known_args([])
    return options


if __name__ == "__main__":
    serve(OpenNMT)
