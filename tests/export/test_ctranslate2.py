"""The encoder-decoder Transformer in CTranslate2, compared with ``generate()``, and what CTranslate2 lacks."""

from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from attnzoo.export import to_ctranslate2
from tests.factory import TOKENIZER, make_model, refused

FIELDS = [
    {"norm": norm, "activation": activation, "attention_bias": bias, "position_embedding": positions, **other}
    for norm in ("post", "pre")
    for activation, bias, positions, other in (
        ("relu", False, "sinusoidal", {}),
        ("gelu", True, "learned", {"tie_word_embeddings": False, "scale_scores": False}),
        ("relu", True, "sinusoidal_halves", {"num_decoder_layers": 1, "output_bias": True, "zero_start": True}),
    )
]


@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: f"{fields['norm']}-{fields['position_embedding']}")
def test_it_translates_as_generate_does(fields: dict[str, Any], tmp_path: Path) -> None:
    model = make_model("transformer-encoder-decoder", std=0.6, **fields)
    texts = ["abc", "dolphin", "e", "zyxwvut", "attention", "noitnetta", "k", "lmnop"]
    folder = to_ctranslate2(model, tmp_path / "out", TOKENIZER)
    translator = ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)
    sources = [TOKENIZER.convert_ids_to_tokens(row) for row in TOKENIZER(texts)["input_ids"]]
    results = translator.translate_batch(sources, beam_size=1, max_decoding_length=12)
    scored = translator.score_batch(sources, [TOKENIZER.convert_ids_to_tokens(row[:-1]) for row in target_ids(texts)])
    for text, row, result, score in zip(texts, target_ids(texts), results, scored, strict=True):
        ids = torch.tensor(TOKENIZER([text])["input_ids"])
        expected = model.generate(input_ids=ids, num_beams=1, max_new_tokens=12)
        names = [name for name in TOKENIZER.convert_ids_to_tokens(expected[0, 1:]) if name != TOKENIZER.eos_token]
        assert result.hypotheses[0] == names
        labels = torch.tensor([row])
        with torch.no_grad():
            log_probs = model(input_ids=ids, labels=labels).logits.log_softmax(dim=-1).gather(2, labels.unsqueeze(2))
        torch.testing.assert_close(torch.tensor(score.log_probs), log_probs[0, :, 0], atol=1e-4, rtol=1e-4)


def target_ids(texts: list[str]) -> list[list[int]]:
    """Targets with an end token: the reversed texts."""
    return TOKENIZER([text[::-1] for text in texts])["input_ids"]


def test_eight_bits_leave_the_model_as_it_is(tmp_path: Path) -> None:
    model = make_model("transformer-encoder-decoder")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    to_ctranslate2(model, tmp_path / "out", TOKENIZER, "int8")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_ctranslate2_does_not_have_is_refused(tmp_path: Path) -> None:
    def refuse(model: Any, *fragments: str, **options: Any) -> None:
        with refused(ValueError, *fragments):
            to_ctranslate2(model, tmp_path / "out", TOKENIZER, **options)
        assert not (tmp_path / "out").exists()

    kind = "transformer-encoder-decoder"
    refuse(make_model("attentional-rnn"), "AttentionalRNNForConditionalGeneration cannot go to CTranslate2")
    refuse(make_model("transformer-causal"), "SmallTransformerForCausalLM cannot go")
    refuse(make_model(kind, position_embedding="none"), "position_embedding='none'")
    refuse(make_model(kind, decoder_mixer="ssru"), "decoder_mixer='ssru'", "export it to ONNX")
    refuse(make_model(kind, eos_token_id=[2, 3]), "one end token", "[2, 3]")
    refuse(make_model(kind), "weights must be one of", "'int4'", weights="int4")
    model = make_model(kind)
    model.lm_head.register_forward_hook(lambda *_: None)
    refuse(model, "lm_head has forward hooks")
