"""Special to the Transformer's decoding: sources read once and shared by targets; fixed-size caches; assistants."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from attnzoo.alignment import generation_alignments
from tests.factory import EOS, GENERATING, WITH_KEYS, padded, tiny_model, words

EXACT = {"rtol": 1e-10, "atol": 1e-12}
LEFT = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]]

every_variant = pytest.mark.parametrize("variant", GENERATING)
every_one_with_keys = pytest.mark.parametrize("variant", WITH_KEYS)


pytestmark = pytest.mark.usefixtures("no_gradients")


def generate(model: Any, batch: dict[str, Tensor], **options: Any) -> Any:
    torch.manual_seed(11)
    return model.generate(**batch, **({"max_new_tokens": 7} | options))


@pytest.mark.parametrize("mode", [{"num_beams": 1}, {"num_beams": 3}])
def test_alignments_are_those_of_a_head_or_the_mean_of_the_last_layer(mode: dict[str, int]) -> None:
    model, batch = tiny_model("encoder_decoder-post-sinusoidal"), padded(LEFT)
    result = generate(model, batch, output_attentions=True, return_dict_in_generate=True, suppress_tokens=[EOS], **mode)
    targets = result.sequences[:, :-1]
    whole = model(**batch, decoder_input_ids=targets, output_attentions=True).cross_attentions
    torch.testing.assert_close(generation_alignments(result), whole[-1].mean(dim=1), **EXACT)
    torch.testing.assert_close(generation_alignments(result, layer=0, head=1), whole[0][:, 1], **EXACT)
    with pytest.raises(ValueError, match="layer must be 0 to 1"):
        generation_alignments(result, layer=2)


# The cache ------------------------------------------------------------------------------------------------------------


@every_variant
def test_the_source_is_read_and_projected_once(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    calls = []
    for name, module in model.named_modules():
        if name.endswith(("cross_attention.key_proj", "encoder.layers.0")):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    generate(model, batch, suppress_tokens=[EOS])
    # The encoder, and the keys of every layer of the decoder.
    assert len(calls) == (1 + len(model.model.decoder.layers) if model.config.is_encoder_decoder else 0)


@every_one_with_keys
def test_a_cache_of_fixed_size_with_room_to_spare(variant: str) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    text = words(len(LEFT), 3, seed=1)
    if model.config.is_encoder_decoder:
        cache: Any = EncoderDecoderCache(*(StaticCache(model.config, max_cache_len=20) for _ in range(2)))
        cache.cross_attention_cache = DynamicCache(config=model.config)
        logits = [model(**batch, decoder_input_ids=step, past_key_values=cache).logits for step in text.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(logits, dim=1), model(**batch, decoder_input_ids=text).logits, **EXACT)
    else:
        cache = StaticCache(model.config, max_cache_len=20)
        torch.testing.assert_close(model(**batch, past_key_values=cache).logits, model(**batch).logits, **EXACT)


@every_one_with_keys
def test_assisted_generation_is_greedy_generation(variant: str) -> None:
    """It works because the cache can be cropped."""
    model, assistant = tiny_model(variant, std=1.0), tiny_model(variant, std=1.0, seed=5)
    batch = {"input_ids": words(1, 5)}
    expected = generate(model, batch)
    assert torch.equal(generate(model, batch, assistant_model=assistant), expected)
    assert torch.equal(generate(model, batch, prompt_lookup_num_tokens=2), expected)


@every_variant
def test_only_the_logits_of_the_last_token_are_made_when_no_others_are_read(variant: str) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    lengths = []
    model.lm_head.register_forward_hook(lambda _, args, __: lengths.append(args[0].shape[1]))
    generate(model, batch, suppress_tokens=[EOS])
    assert lengths == [1] * 7
