"""Recorded weights equal those of the eager backend, and recording does not change the model's outputs."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo import record_attention
from attnzoo.attention_recording import attention_layers
from tests.factory import padded_batch, tiny_model, words
from tests.viewer.tiny_hugging_face import DECODERS, ENCODER_DECODERS, ENCODERS, OF_TRANSFORMERS, OURS, tiny

EVERY = [*OF_TRANSFORMERS, *OURS]
KEYS = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
KEYS["cross"] = "cross_attentions"


def batch_of(name: str) -> dict[str, Tensor]:
    ids, mask = padded_batch([6, 4], "right")
    batch = {"input_ids": ids, "attention_mask": mask.long()}
    if name in ENCODER_DECODERS or name == "small-transformer":
        batch["decoder_input_ids"] = words(2, 5, seed=1)
    return batch


def eager_weights(name: str, batch: dict[str, Tensor], **overrides: Any) -> dict[str, tuple[Tensor, ...]]:
    outputs = tiny(name, "eager", **overrides)(**batch, output_attentions=True)
    return {kind: outputs[key] for kind, key in KEYS.items() if outputs.get(key)}


@pytest.mark.parametrize("name", EVERY)
def test_recorded_weights_equal_the_eager_ones_and_the_fused_kernel_stays(name: str) -> None:
    model, batch = tiny(name), batch_of(name)
    expected = model(**batch)
    with record_attention(model) as recorded:
        outputs = model(**batch)
    assert torch.equal(outputs[0], expected[0])
    assert model.config._attn_implementation == "sdpa"
    weights = eager_weights(name, batch)
    assert recorded.keys() == weights.keys()
    for kind, layers in weights.items():
        found = [calls for of_layer in recorded[kind].values() for calls in of_layer]  # ALBERT has one layer
        assert len(found) == len(layers)
        real = batch["attention_mask"].bool() if kind in ("self", "encoder") else torch.ones(2, 5, dtype=torch.bool)
        for one, other in zip(found, layers, strict=True):
            torch.testing.assert_close(one.transpose(1, 2)[real], other.transpose(1, 2)[real], atol=1e-5, rtol=0)


def test_a_loss_that_leaves_padding_out_has_the_same_weights() -> None:
    """The model then computes only real tokens, which are packed everywhere except in the attention."""
    model = tiny_model("encoder_decoder-post-sinusoidal").eval()
    ids, mask = padded_batch([9, 2, 3], "right")
    labels = words(3, 6, seed=1)
    labels[1:, 2:] = -100
    found = []
    for skips in (False, True):
        with record_attention(model) as recorded:
            model(ids, attention_mask=mask, labels=labels, skip_logits=skips)
        found.append(recorded)
    for kind, is_real in (("encoder", mask.bool()), ("decoder", labels != -100), ("cross", labels != -100)):
        for layer, [expected] in found[0][kind].items():
            [weights] = found[1][kind][layer]
            torch.testing.assert_close(weights.transpose(1, 2)[is_real], expected.transpose(1, 2)[is_real])


def test_a_recording_takes_the_passes_of_its_own_thread_alone() -> None:
    model = tiny("small-transformer")
    sources = [words(1, length, seed=length) for length in range(2, 12)]

    def recorded_of(source: Tensor) -> Tensor:
        with record_attention(model, [-1], kinds=("cross",)) as recorded:
            model(input_ids=source, decoder_input_ids=words(1, 5, seed=1))
        [weights] = next(iter(recorded["cross"].values()))
        return weights

    expected = [recorded_of(source) for source in sources] * 5
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(recorded_of, sources * 5))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", [*DECODERS, *ENCODER_DECODERS])
def test_the_eager_backend_is_recorded_too(name: str) -> None:
    batch = batch_of(name)
    model = tiny(name, "eager")
    with record_attention(model, layers=[-1], heads=[1]) as recorded:
        outputs = model(**batch, output_attentions=True)
    for kind, of_layer in recorded.items():
        (number,) = of_layer
        assert number == len(outputs[KEYS[kind]]) - 1
        torch.testing.assert_close(of_layer[number][0], outputs[KEYS[kind]][-1][:, [1]])


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bart", "small-transformer"])
def test_only_the_chosen_layers_and_heads_are_recorded(name: str) -> None:
    model, batch = tiny(name), batch_of(name)
    with record_attention(model, layers=[1], heads=[1, 0]) as recorded:
        model(**batch)
    for kind, weights in eager_weights(name, batch).items():
        assert list(recorded[kind]) == [1]
        real = (batch["attention_mask"] if kind in ("self", "encoder") else torch.ones(2, 5)).bool()
        expected = weights[1][:, [1, 0]]
        torch.testing.assert_close(
            recorded[kind][1][0].transpose(1, 2)[real], expected.transpose(1, 2)[real], atol=1e-5, rtol=0
        )


def test_chosen_kinds() -> None:
    model, batch = tiny("bart"), batch_of("bart")
    with record_attention(model, kinds=["cross"]) as recorded:
        model(**batch)
    assert list(recorded) == ["cross"]
    assert list(recorded["cross"]) == [0, 1, 2]


@pytest.mark.parametrize("name", ["gpt2", "llama", "bart", "t5", "small-transformer"])
@pytest.mark.parametrize("beams", [1, 3])
def test_every_step_of_generate_is_recorded(name: str, beams: int) -> None:
    """With one query per step, keys shared by several heads, a cache, and beams that share a source."""
    batch = {k: v for k, v in batch_of(name).items() if not k.startswith("decoder")}
    # Decoders pad on the left.
    ids, mask = padded_batch([6, 4], "left")
    batch = {"input_ids": ids, "attention_mask": mask.long()}
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "num_beams": beams, "do_sample": False}
    model, eager = tiny(name), tiny(name, "eager")
    with record_attention(model, layers=[-1]) as recorded:
        sequences = model.generate(**batch, **options)
    expected = eager.generate(**batch, **options, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(sequences, expected.sequences)
    key, kind = ("cross_attentions", "cross") if "cross" in recorded else ("attentions", "self")
    (steps,) = recorded[kind].values()
    assert len(steps) == len(expected[key])
    for step, layers in zip(steps, expected[key], strict=True):
        torch.testing.assert_close(step[:, :, -1], layers[-1][:, :, -1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_hooks_are_gone_after_the_block_and_after_an_error(name: str) -> None:
    model = tiny(name)

    def hooks() -> int:
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())

    def fail(*_: Any) -> None:
        raise InterruptedError

    before = hooks()
    query = next(m for m in attention_layers(model)["self"][-1].modules() if isinstance(m, nn.Linear))
    handle = query.register_forward_pre_hook(fail)  # inside of the attention of the last layer
    with pytest.raises(InterruptedError), record_attention(model, layers=[-1]) as recorded:
        model(input_ids=words(1, 4))
    handle.remove()
    assert hooks() == before
    assert not any(calls for of_kind in recorded.values() for calls in of_kind.values())
    # No mode of torch is left active: the weights of a call outside of the block are not recorded.
    model(input_ids=words(1, 4))
    assert not any(calls for of_kind in recorded.values() for calls in of_kind.values())


def test_recorded_weights_have_no_graph_and_gradients_still_flow() -> None:
    model, batch = tiny("bert"), batch_of("bert")
    with record_attention(model, layers=[0]) as recorded:
        model(**batch)[0].sum().backward()
    assert not recorded["self"][0][0].requires_grad
    assert all(p.grad is not None for n, p in model.named_parameters() if "query" in n)


def test_the_model_is_not_kept_alive() -> None:
    model = tiny("gpt2")
    with record_attention(model) as recorded:
        model(input_ids=words(1, 4))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert len(recorded["self"]) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [3]}, "layers must be 0 to 2, got 3"),
        ({"layers": [-4]}, "layers must be 0 to 2, got -4"),
        ({"kinds": ["cross"]}, "kinds of BertForMaskedLM are self, got 'cross'"),
    ],
)
def test_what_the_model_does_not_have_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message), record_attention(tiny("bert"), **options):
        pass


def test_a_head_that_is_not_there_is_refused() -> None:
    model = tiny("bert")
    with pytest.raises(ValueError, match="heads must be 0 to 3, got 4"), record_attention(model, heads=[4]):
        model(input_ids=words(1, 4))


@pytest.mark.parametrize("model", [nn.Linear(2, 2), tiny_model("luong-lstm-dot"), tiny_model("single")], ids=repr)
def test_models_without_the_interface_are_refused(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="no layers of Transformers' attention interface"), record_attention(model):
        pass


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_a_backend_without_weights_is_refused() -> None:
    model = tiny("bert")
    model.set_attn_implementation("flex_attention")
    message = r"attn_implementation='flex_attention'.*set_attn_implementation\('sdpa'\)"
    eager = torch.compiler.set_stance("force_eager")  # its kernels are compiled, which takes seconds
    with pytest.raises(ValueError, match=message), record_attention(model), torch.no_grad(), eager:
        model(input_ids=words(1, 4))
