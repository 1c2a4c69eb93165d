"""``from_paper``: the sizes of the papers, and that small versions of them learn."""

from typing import Any

import pytest
import torch

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from tests.recurrent.wirings import BATCH, MASK, batch

ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}


FOUR_LAYERS = {"encoder_layers": 4, "decoder_layers": 4, "bidirectional": False, "reverse_source": True, "cell": "lstm"}


LUONG = FOUR_LAYERS | {
    "wiring": "luong",
    "input_feeding": True,
    "vocab_size": 50_000,
    "embedding_size": 1000,
    "readout_size": 1000,
    "dropout": 0.2,
    "initializer_range": 0.1,
    "window_size": 10,
    "max_source_positions": 50,  # the longest sentence trained on
}


SEE = {
    "wiring": "luong",
    "score": "concat",
    "window": "global",
    "input_feeding": True,
    "copy": True,
    "cell": "lstm",
    "bidirectional": True,
    "vocab_size": 50_000,
    "embedding_size": 128,
    "encoder_hidden_size": 256,
    "decoder_hidden_size": 256,
    "dropout": 0,
} | ONE_LAYER


PAPERS: dict[str, dict[str, Any]] = {
    "cho2014": ONE_LAYER
    | {
        "wiring": "cho",
        "score": "none",
        "cell": "cho_gru",
        "bidirectional": False,
        "reverse_source": False,
        "vocab_size": 15_000,
        "embedding_size": 100,
        "readout_size": 500,
        "dropout": 0,
        "initializer_range": 0.01,
    },
    "sutskever2014": FOUR_LAYERS
    | {
        "wiring": "sutskever",
        "score": "none",
        "vocab_size": 160_000,
        "embedding_size": 1000,
        "readout_size": 1000,
        "dropout": 0,
        "initializer_range": 0.08,
    },
    "bahdanau2014": ONE_LAYER
    | {
        "wiring": "bahdanau",
        "score": "additive",
        "window": "global",
        "cell": "cho_gru",
        "bidirectional": True,
        "vocab_size": 30_000,
        "embedding_size": 620,
        "attention_size": 1000,
        "readout_size": 500,
        "dropout": 0,
        "initializer_range": 0.01,
    },
    "luong2015-global-dot": LUONG | {"score": "dot", "window": "global"},
    "luong2015-global-general": LUONG | {"score": "general", "window": "global"},
    "luong2015-global-concat": LUONG | {"score": "concat", "window": "global"},
    "luong2015-global-location": LUONG | {"score": "location", "window": "global"},
    "luong2015-local-m": LUONG | {"score": "general", "window": "monotonic"},
    "luong2015-local-p": LUONG | {"score": "general", "window": "predictive"},
    "see2017-pointer-generator": SEE | {"coverage": False},
    "see2017-coverage": SEE | {"coverage": True, "coverage_loss_coefficient": 1},
}


SMALL = {
    "vocab_size": 13,
    "embedding_size": 6,
    "encoder_hidden_size": 8,
    "hidden_size": 8,  # the standard name of decoder_hidden_size
    "attention_size": 5,
}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_model_has_the_papers_sizes(paper: str) -> None:
    config = AttentionalRNNConfig.from_paper(paper)
    fields = {"encoder_hidden_size": 1000, "decoder_hidden_size": 1000, "teacher_forcing_ratio": 1} | PAPERS[paper]
    assert {name: getattr(config, name) for name in fields} == fields
    assert config.forget_gate_bias is None


def test_sutskevers_model_has_64_million_recurrent_parameters() -> None:
    """Sutskever et al., 2014, section 3.4: 32 million in the encoder, 32 million in the decoder; torch adds biases.
    A sentence is 8000 numbers: a hidden and a cell state of every layer."""
    config = AttentionalRNNConfig.from_paper("sutskever2014")
    with torch.device("meta"):
        model = AttentionalRNNForConditionalGeneration(config)
        _, sentence = model.get_encoder().rnn(torch.zeros(1, 2, config.embedding_size))
    for part in (model.model.encoder.rnn, model.model.decoder.wiring):
        weights = {name: parameter for name, parameter in part.named_parameters() if "bias" not in name}
        assert sum(weight.numel() for weight in weights.values()) == 32_000_000
    assert sentence.hidden.numel() + sentence.cell.numel() == 8000


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_model_made_small_learns_and_generates(paper: str) -> None:
    torch.manual_seed(0)
    # A narrow model needs wider weights than the paper's to move in one step.
    config = AttentionalRNNConfig.from_paper(paper, **SMALL, initializer_range=0.5)
    model, inputs = AttentionalRNNForConditionalGeneration(config), batch()
    before = model.eval()(**inputs).loss
    model.train()(**inputs).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model.eval()(**inputs).loss < before
    assert all(parameter.grad is not None for parameter in model.parameters())
    ids = model.eval().generate(inputs["input_ids"], attention_mask=MASK, num_beams=2, max_new_tokens=5)
    assert len(ids) == BATCH
    assert 2 <= ids.shape[1] <= 6


def test_any_field_of_a_papers_model_can_be_overridden() -> None:
    """A field that the paper sets, one that it does not set, and the standard names of two fields."""
    overrides = {"vocab_size": 99, "eos_token_id": 7, "hidden_size": 24, "num_hidden_layers": 3}
    config = AttentionalRNNConfig.from_paper("cho2014", **overrides)
    assert {name: getattr(config, name) for name in overrides} == overrides
    assert (config.decoder_hidden_size, config.decoder_layers) == (24, 3)
    assert config.readout_size == 12  # half of the decoder's width, as in the paper
    assert (config.wiring, config.encoder_hidden_size, config.embedding_size) == ("cho", 1000, 100)
    again = AttentionalRNNConfig.from_paper("cho2014")
    assert (again.vocab_size, again.decoder_hidden_size) == (15_000, 1000)


@pytest.mark.parametrize(
    ("paper", "name", "message"),
    [
        *(
            (paper, "dropout", f"there is no paper {paper!r}; .*{', '.join(PAPERS)}")
            for paper in ("luong2015", "Cho2014")
        ),
        ("bahdanau2014", "droput", "no field 'droput'; did you mean 'dropout'"),
        ("bahdanau2014", "hiden_size", "no field 'hiden_size'; did you mean 'hidden_size'"),
        ("bahdanau2014", "Score", "no field 'Score'; did you mean 'score'"),
        ("bahdanau2014", "xyzzy", "no field 'xyzzy'$"),
    ],
)
def test_an_unknown_paper_or_field_is_refused_with_the_nearest(paper: str, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionalRNNConfig.from_paper(paper, **{name: 1})
