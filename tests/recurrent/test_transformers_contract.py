"""What Transformers' own common tests ask of every model, asked of every wiring, with its own exemptions in words.

Deeper tests of single promises stand elsewhere: the files in ``test_hub_roundtrip``, beam search and the cache in
``test_generation``, padding in ``test_invariance``, the Trainer in ``test_trainer``.
"""

import copy
import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModel, AutoModelForSeq2SeqLM, GenerationConfig, PreTrainedModel, TextStreamer, pipeline
from transformers.generation import GenerationMixin
from transformers.generation import utils as generation_utils

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from attnzoo.recurrent_cache import RecurrentDecoderCache
from tests.families import TOKENIZER

PAD, BOS, EOS = 0, 1, 2
VOCAB_SIZE = 13
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 6,
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 8,
    "attention_size": 5,
    "window_size": 2,
    "max_source_positions": 6,
}
WIRINGS: dict[str, dict[str, Any]] = {
    "cho": {"wiring": "cho"},
    "sutskever": {
        "wiring": "sutskever",
        "cell": "lstm",
        "bidirectional": False,
        "reverse_source": True,
        "encoder_hidden_size": 8,
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "bahdanau": {"wiring": "bahdanau"},
    "luong-feeding": {"wiring": "luong", "cell": "lstm", "input_feeding": True},
    "luong-local-p": {"wiring": "luong", "cell": "gru", "window": "predictive", "encoder_layers": 2},
    "luong-location": {"wiring": "luong", "cell": "rnn", "score": "location", "window": "monotonic"},
}
ATTENTIVE = ["bahdanau", "luong-feeding", "luong-local-p", "luong-location"]
HEAD, BASE = AttentionalRNNForConditionalGeneration, AttentionalRNNModel
TIED = {"tie_word_embeddings": True, "embedding_size": 8, "readout_size": 8}
S, T = 6, 4  # lengths of source and target
MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sample": {"do_sample": True, "num_return_sequences": 3},
    "beam": {"num_beams": 4, "num_return_sequences": 3},
    "beam-sample": {"num_beams": 4, "do_sample": True, "num_return_sequences": 3},
}

every_wiring = pytest.mark.parametrize("name", WIRINGS)
tied_or_not = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
every_mode = pytest.mark.parametrize("mode", MODES)
every_class = pytest.mark.parametrize("model_class", [HEAD, BASE], ids=["head", "base"])


def make(
    name: str, model_class: type[PreTrainedModel] = HEAD, dtype: torch.dtype = torch.float64, **overrides: Any
) -> PreTrainedModel:
    """A model in eval mode with every weight from N(0, 0.7^2), so that nothing hides behind a start at zero."""
    torch.manual_seed(0)
    model = model_class(AttentionalRNNConfig(**(SIZES | WIRINGS[name] | overrides)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model.to(dtype).eval()


def words(rows: int, length: int, seed: int = 0) -> Tensor:
    """Ordinary tokens, all below 9."""
    return torch.randint(3, 9, (rows, length), generator=torch.Generator().manual_seed(seed))


def inputs() -> dict[str, Tensor]:
    """Three sources, one of them padded on the left and one on the right, and three targets."""
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    return {"input_ids": words(3, S) * mask, "attention_mask": mask, "decoder_input_ids": words(3, T, seed=1)}


def source() -> dict[str, Tensor]:
    return {name: tensor for name, tensor in inputs().items() if name != "decoder_input_ids"}


def tensors(output: Any) -> list[Tensor]:
    """Every tensor of an output, in order; the cache, which is none, aside."""
    if isinstance(output, Tensor):
        return [output]
    parts = output.to_tuple() if hasattr(output, "to_tuple") else output
    return [tensor for part in parts for tensor in tensors(part)] if isinstance(parts, tuple) else []


def compute(model: PreTrainedModel) -> Tensor:
    """The first output: logits of a head, the readout of a base model."""
    with torch.no_grad():
        return model(**inputs())[0]


def assert_same(model: PreTrainedModel, other: PreTrainedModel) -> None:
    """The same weights to the bit, and the same first output.

    The output not to the bit: kernels add up in another order where a file was mapped to another address.
    """
    weights = other.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    torch.testing.assert_close(compute(other), compute(model), rtol=1e-11, atol=1e-12)


def parameters_without_gradient(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.grad is None]


# The classes ----------------------------------------------------------------------------------------------------------


@every_class
def test_forward_begins_with_the_usual_arguments(model_class: type[PreTrainedModel]) -> None:
    names = list(inspect.signature(model_class.forward).parameters)
    usual = ["self", "input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask", "encoder_outputs"]
    assert names[:6] == usual
    assert model_class.main_input_name == "input_ids"


def test_the_head_generates_and_the_base_model_does_not() -> None:
    assert GenerationMixin in HEAD.__bases__  # Transformers looks no further
    assert make("bahdanau").can_generate()
    assert not make("bahdanau", BASE).can_generate()


@every_class
def test_the_state_cannot_be_rolled_back(model_class: type[PreTrainedModel]) -> None:
    assert model_class._is_stateful  # what makes Transformers refuse assisted decoding


@every_class
def test_what_a_recurrent_model_has_not_is_refused_in_words(model_class: type[PreTrainedModel]) -> None:
    model = make("luong-feeding", model_class)
    for options in ({"use_reentrant": True}, {"use_reentrant": None}):
        with pytest.raises(ValueError, match="would lose the gradients of recurrent states"):
            model.activation_checkpointing_enable(options)
    for implementation in ("sdpa", "flash_attention_2"):
        with pytest.raises(ValueError, match=f"{model_class.__name__} does not support"):
            model.set_attn_implementation(implementation)
        with pytest.raises(ValueError, match=f"{model_class.__name__} does not support"):
            model_class._from_config(model.config, attn_implementation=implementation)


# Files and copies -----------------------------------------------------------------------------------------------------


@every_class
@every_wiring
def test_a_saved_model_loads_as_it_was(name: str, model_class: type[PreTrainedModel], tmp_path: Path) -> None:
    model = make(name, model_class)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "generation_config.json").exists() == model.can_generate()
    auto_class = AutoModelForSeq2SeqLM if model_class is HEAD else AutoModel
    for loader in (model_class, auto_class):
        loaded, info = loader.from_pretrained(tmp_path, output_loading_info=True)
        assert type(loaded) is model_class
        assert not any(info.values())  # nothing missing, unexpected or of another shape
        assert_same(loaded, model)


@tied_or_not
@every_wiring
def test_head_and_base_load_each_others_weights(name: str, tied: bool, tmp_path: Path) -> None:
    head = make(name, **(TIED if tied else {}))
    head.save_pretrained(tmp_path / "head")
    base = BASE.from_pretrained(tmp_path / "head")
    assert_same(base, head.model)
    base.save_pretrained(tmp_path / "base")
    again, info = HEAD.from_pretrained(tmp_path / "base", output_loading_info=True)
    assert set(info["missing_keys"]) == (set() if tied else {"lm_head.weight"})
    assert_same(again.model, head.model)
    assert torch.equal(again.lm_head.weight, head.lm_head.weight) == tied


@pytest.fixture
def uninitialised_memory_is_nan() -> Iterator[None]:
    """Make torch.empty give NaN, so that a weight nobody initialises cannot pass by chance."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@pytest.mark.parametrize("cell", ["cho_gru", "gru", "lstm", "rnn"])
@every_wiring
def test_weights_that_a_checkpoint_lacks_are_initialised(name: str, cell: str, tmp_path: Path) -> None:
    """Others are left as they are; two halves of the weights are missing in turn, then all of them."""
    model = make(name, dtype=torch.float32, cell=cell, encoder_layers=2, decoder_layers=1)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    names = sorted(saved)
    for missing in (names[::2], names[1::2], names):
        kept = {key: tensor for key, tensor in saved.items() if key not in missing}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        loaded, info = HEAD.from_pretrained(tmp_path, output_loading_info=True)
        assert set(info["missing_keys"]) == set(missing)
        for key, tensor in loaded.state_dict().items():
            assert tensor.isfinite().all(), key
            assert torch.equal(tensor, saved[key]) == (key not in missing), key


@every_wiring
def test_models_are_built_without_memory(name: str) -> None:
    with torch.device("meta"):
        model = HEAD(AttentionalRNNConfig(**(SIZES | WIRINGS[name])))
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert list(model.buffers()) == []  # a buffer would have to be made again after loading


@every_wiring
def test_weights_of_another_vocabulary_are_replaced_on_request(name: str, tmp_path: Path) -> None:
    model = make(name, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        HEAD.from_pretrained(tmp_path, vocab_size=20)
    larger = HEAD.from_pretrained(tmp_path, vocab_size=20, ignore_mismatched_sizes=True)
    assert compute(larger).shape == (3, T, 20)
    assert compute(larger).isfinite().all()
    kept = set(model.state_dict()) - {
        "lm_head.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
    }
    assert all(torch.equal(larger.state_dict()[key], model.state_dict()[key]) for key in kept)


@pytest.mark.parametrize(
    "options",
    [
        {"device_map": "cpu"},
        {"device_map": {"": "cpu"}},
        {"device_map": "auto", "max_memory": {"cpu": "1GiB"}},  # no GPU, if there is one: the inputs are on the CPU
        {"device_map": {"model.encoder": "cpu", "model.decoder": "cpu", "lm_head": "cpu"}},
        {"low_cpu_mem_usage": True},
    ],
    ids=str,
)
@every_wiring
def test_every_way_to_place_the_weights_gives_the_same_model(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model = make(name)
    model.save_pretrained(tmp_path)
    assert_same(HEAD.from_pretrained(tmp_path, **options), model)


@pytest.mark.parametrize("score", ["additive", "dot", "general", "concat", "location"])
@pytest.mark.parametrize("name", ["bahdanau", "luong-feeding", "luong-local-p"])
def test_a_model_on_disk_computes_the_same(name: str, score: str, tmp_path: Path) -> None:
    """Accelerate then brings a module's weights before its forward pass: no other module may read them."""
    check_on_disk(make(name, score=score), tmp_path)


@pytest.mark.parametrize("name", ["cho", "sutskever"])
def test_a_model_without_attention_on_disk_computes_the_same(name: str, tmp_path: Path) -> None:
    check_on_disk(make(name), tmp_path)


def check_on_disk(model: PreTrainedModel, folder: Path) -> None:
    model.save_pretrained(folder)
    places = {"model.encoder": "disk", "model.decoder": "disk", "lm_head": "cpu"}
    loaded = HEAD.from_pretrained(folder, device_map=places, offload_folder=folder / "offloaded")
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"meta"}
    torch.testing.assert_close(compute(loaded), compute(model), rtol=1e-11, atol=1e-12)
    options = {"num_beams": 2, "max_new_tokens": 5}
    assert torch.equal(loaded.generate(**source(), **options), model.generate(**source(), **options))


@pytest.mark.parametrize("argument", ["dtype", "torch_dtype"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, "float64", "auto"], ids=str)
def test_the_dtype_is_the_one_asked_for(dtype: Any, argument: str, tmp_path: Path) -> None:
    make("bahdanau", dtype=torch.float32).save_pretrained(tmp_path)
    loaded = HEAD.from_pretrained(tmp_path, **{argument: dtype})
    expected = {"float64": torch.float64, "auto": torch.float32}.get(dtype, dtype)
    assert {parameter.dtype for parameter in loaded.parameters()} == {expected}


def through_pickle(model: PreTrainedModel) -> PreTrainedModel:
    return pickle.loads(pickle.dumps(model))


def through_torch(model: PreTrainedModel) -> PreTrainedModel:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def through_state_dict(model: PreTrainedModel) -> PreTrainedModel:
    other = HEAD(model.config).double().eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("duplicate", [copy.deepcopy, through_pickle, through_torch, through_state_dict])
@tied_or_not
@every_wiring
def test_copies_compute_the_same_and_share_nothing(
    name: str, tied: bool, duplicate: Callable[[PreTrainedModel], PreTrainedModel]
) -> None:
    model = make(name, **(TIED if tied else {}))
    other = duplicate(model)
    assert_same(other, model)
    assert (other.lm_head.weight is other.get_input_embeddings().weight) == tied
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


# Embeddings -----------------------------------------------------------------------------------------------------------


def vocabulary_matrices(model: PreTrainedModel) -> list[Tensor]:
    """Source embedding, target embedding and output projection."""
    return [model.model.encoder.embed_tokens.weight, model.model.decoder.embed_tokens.weight, model.lm_head.weight]


@pytest.mark.parametrize(
    ("size", "multiple", "expected"),
    [(VOCAB_SIZE + 4, None, 17), (9, None, 9), (None, 8, 16), (17, 8, 24), (VOCAB_SIZE, None, 13)],
    ids=["grow", "shrink", "pad", "grow and pad", "keep"],
)
@tied_or_not
@every_wiring
def test_resized_vocabulary(
    name: str, tied: bool, size: int | None, multiple: int | None, expected: int, tmp_path: Path
) -> None:
    """Old words keep their logits; forward, loss, generate, save and load go on working."""
    model = make(name, **(TIED if tied else {}))
    before = compute(model)
    returned = model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
    assert returned is model.get_input_embeddings()
    assert model.config.vocab_size == model.model.decoder.config.vocab_size == expected
    assert model.lm_head.out_features == expected
    assert [len(matrix) for matrix in vocabulary_matrices(model)] == [expected] * 3
    assert len({id(matrix) for matrix in vocabulary_matrices(model)}) == (1 if tied else 3)
    common = min(expected, VOCAB_SIZE)
    logits = compute(model)
    assert logits.shape[-1] == expected
    torch.testing.assert_close(logits[..., :common], before[..., :common], rtol=1e-10, atol=1e-12)

    last = torch.full((3, T), expected - 1)
    model(input_ids=last, labels=last).loss.backward()
    assert not parameters_without_gradient(model)
    generated = model.generate(**source(), num_beams=2, max_new_tokens=5)
    assert generated.max() < expected
    model.save_pretrained(tmp_path)
    loaded = HEAD.from_pretrained(tmp_path)
    assert_same(loaded, model)
    assert torch.equal(loaded.generate(**source(), num_beams=2, max_new_tokens=5), generated)


@every_wiring
def test_tied_matrices_stay_one(name: str, tmp_path: Path) -> None:
    """While training, in another precision, and in a file, which holds them once."""
    model = make(name, dtype=torch.float32, **TIED)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    start = model.lm_head.weight.clone()
    model(**source(), labels=words(3, T)).loss.backward()
    optimizer.step()
    assert not torch.equal(model.lm_head.weight, start)
    assert set(model.all_tied_weights_keys) == {"lm_head.weight", "model.decoder.embed_tokens.weight"}
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum("embed_tokens" in key or "lm_head" in key for key in saved) == 1
    for tied in (model, HEAD.from_pretrained(tmp_path), model.to(torch.bfloat16)):
        assert len({id(matrix) for matrix in vocabulary_matrices(tied)}) == 1


@every_class
@every_wiring
def test_embeddings_instead_of_ids_give_the_same(name: str, model_class: type[PreTrainedModel]) -> None:
    model = make(name, model_class)
    expected = compute(model)
    ids = inputs()
    of_source = model.get_encoder().get_input_embeddings()(ids["input_ids"])
    of_target = model.get_decoder().get_input_embeddings()(ids["decoder_input_ids"])
    mask, target = ids["attention_mask"], ids["decoder_input_ids"]
    for arguments in (
        {"inputs_embeds": of_source, "decoder_input_ids": target},
        {"input_ids": ids["input_ids"], "decoder_inputs_embeds": of_target},
        {"inputs_embeds": of_source, "decoder_inputs_embeds": of_target},
    ):
        # torch's LSTM takes another kernel where gradients are made.
        torch.testing.assert_close(model(**arguments, attention_mask=mask)[0], expected, rtol=0, atol=1e-13)
    if model_class is HEAD:
        generated = model.generate(inputs_embeds=of_source, attention_mask=mask, num_beams=2, max_new_tokens=5)
        assert torch.equal(generated, model.generate(**source(), num_beams=2, max_new_tokens=5))


# Outputs --------------------------------------------------------------------------------------------------------------


@every_class
@every_wiring
def test_a_padded_row_of_a_batch_is_computed_as_if_alone(name: str, model_class: type[PreTrainedModel]) -> None:
    model = make(name, model_class)

    def outputs_of(row: int, real: Tensor | slice, batch: dict[str, Tensor]) -> list[Tensor]:
        """Every output of a row, on the real tokens of its source."""
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
        encoder_states = [states[row, real] for states in outputs.encoder_hidden_states]
        decoder_states = [states[row] for states in outputs.decoder_hidden_states]
        alignments = [weights[row, ..., real] for weights in outputs.cross_attentions or ()]
        return [outputs[0][row], *encoder_states, *decoder_states, *alignments]

    batch = inputs()
    for row, mask in enumerate(batch["attention_mask"].bool()):
        single = {
            "input_ids": batch["input_ids"][row, mask].unsqueeze(0),
            "decoder_input_ids": batch["decoder_input_ids"][row].unsqueeze(0),
        }
        pairs = zip(outputs_of(0, slice(None), single), outputs_of(row, mask, batch), strict=True)
        for alone, together in pairs:
            torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-14)


@every_wiring
def test_the_same_input_gives_the_same_bits(name: str) -> None:
    model = make(name, dropout=0.5, teacher_forcing_ratio=0.5)
    assert torch.equal(compute(model), compute(model))
    model.train()
    assert not torch.equal(compute(model), compute(model))


@every_class
@every_wiring
def test_states_and_alignments_come_when_asked_for(name: str, model_class: type[PreTrainedModel]) -> None:
    """By argument and by config alike, by name and in the order of a tuple."""
    model = make(name, model_class)
    config = model.config
    has_attention = config.score != "none"
    plain = model(**inputs())
    assert not {"encoder_hidden_states", "decoder_hidden_states", "cross_attentions"} & set(plain)

    named = model(**inputs(), output_hidden_states=True, output_attentions=True)
    assert len(named.encoder_hidden_states) == 1 + config.encoder_layers
    assert len(named.decoder_hidden_states) == 1 + config.decoder_layers + 1  # the readout comes last
    assert torch.equal(named.encoder_hidden_states[-1], named.encoder_last_hidden_state)
    if has_attention:
        assert [tuple(weights.shape) for weights in named.cross_attentions] == [(3, 1, T, S)]
    else:
        assert named.cross_attentions is None
    assert torch.equal(named[0], plain[0])

    by_tuple = model(**inputs(), output_hidden_states=True, output_attentions=True, return_dict=False)
    config.output_hidden_states = config.output_attentions = True
    by_config = model(**inputs())
    assert type(by_tuple) is tuple
    assert list(by_config) == list(named)
    for other in (by_tuple, by_config):
        pairs = list(zip(tensors(other), tensors(named), strict=True))
        assert all(torch.equal(one, two) for one, two in pairs)
        assert len(pairs) == 2 + (1 + config.encoder_layers) + (2 + config.decoder_layers) + has_attention
    switched_off = model(**inputs(), output_hidden_states=False, output_attentions=False)
    assert set(switched_off) == set(plain)


@every_wiring
def test_embeddings_and_outputs_retain_their_gradients(name: str) -> None:
    """They lie on the way from the weights to the logits; what a decoder makes step by step is put together for us."""
    model = make(name)
    outputs = model(**inputs(), output_hidden_states=True)
    retained = [outputs.encoder_hidden_states[0], outputs.decoder_hidden_states[0], outputs.decoder_hidden_states[-1]]
    if model.config.score != "none":  # else the decoder takes the encoder's final state alone
        retained.append(outputs.encoder_last_hidden_state)
    for tensor in retained:
        tensor.retain_grad()
    outputs.logits.square().sum().backward()
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in retained)


@pytest.mark.parametrize("name", ATTENTIVE)
def test_a_loss_can_be_put_on_the_alignments(name: str) -> None:
    model = make(name)
    alignments = model(**inputs(), output_attentions=True).cross_attentions[0]
    alignments[..., 0].sum().backward()
    reached = {key for key, parameter in model.named_parameters() if parameter.grad is not None}
    assert any("attention" in key for key in reached)
    assert any("decoder.wiring.rnn" in key for key in reached)
    assert "model.encoder.embed_tokens.weight" in reached


# Precision ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16], ids=["float16", "bfloat16"])
@every_wiring
def test_half_precision(name: str, convert: Callable[[nn.Module], nn.Module]) -> None:
    """Forward, backward and every mode of generate() run, near what single precision gives."""
    exact = compute(make(name, dtype=torch.float32))
    model = convert(make(name, dtype=torch.float32))
    outputs = model(**inputs())
    assert outputs.logits.dtype == model.dtype
    torch.testing.assert_close(outputs.logits.float(), exact, rtol=0.1, atol=0.3)
    loss = model(**source(), labels=words(3, T)).loss
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    for mode in MODES.values():
        assert len(model.generate(**source(), max_new_tokens=5, **mode)) == 3 * mode.get("num_return_sequences", 1)


# Training -------------------------------------------------------------------------------------------------------------


@every_wiring
def test_labels_are_predicted_where_they_stand(name: str) -> None:
    """Another label at t changes the loss by the logits at t alone: nothing is shifted once more."""
    model = make(name)
    labels = words(3, T, seed=2)
    log_probabilities = model(**inputs()).logits.log_softmax(dim=-1)
    loss = model(**inputs(), labels=labels).loss
    for row in range(3):
        for step in range(T):
            other = labels.clone()
            other[row, step] = 10
            change = model(**inputs(), labels=other).loss - loss
            old, new = log_probabilities[row, step, labels[row, step]], log_probabilities[row, step, 10]
            torch.testing.assert_close(change * labels.numel(), old - new, rtol=1e-10, atol=1e-12)


@every_wiring
def test_labels_alone_are_read_one_step_later(name: str) -> None:
    model = make(name)
    labels = words(3, T, seed=2)
    shifted = torch.cat([torch.full((3, 1), BOS), labels[:, :-1]], dim=1)
    by_labels = model(**source(), labels=labels)
    # Without a cache to fill the decoder takes another loop.
    by_words = model(**source(), decoder_input_ids=shifted).logits
    torch.testing.assert_close(by_labels.logits, by_words, rtol=0, atol=1e-13)
    assert by_labels.past_key_values is None
    # Every label is the next input: it changes the logits from the next step on, and no earlier ones.
    for step in range(T):
        other = labels.clone()
        other[:, step] = 10
        changed = (model(**source(), labels=other).logits != by_labels.logits).any(dim=-1).any(dim=0).tolist()
        assert changed == [at > step for at in range(T)]


@every_class
@every_wiring
def test_a_source_alone_is_its_own_target(name: str, model_class: type[PreTrainedModel]) -> None:
    """As of every encoder-decoder of Transformers: shifted right."""
    model = make(name, model_class, teacher_forcing_ratio=0.5)
    ids = source()["input_ids"]
    shifted = torch.cat([torch.full((3, 1), BOS), ids[:, :-1]], dim=1)
    assert torch.equal(model(**source())[0], model(**source(), decoder_input_ids=shifted)[0])
    assert model(**model.dummy_inputs)[0].isfinite().all()
    torch.manual_seed(0)
    mixed = model.train()(**source())[0]
    torch.manual_seed(0)
    assert torch.equal(mixed, model(**source(), decoder_input_ids=shifted)[0])


@pytest.mark.parametrize("with_states", [False, True])
@every_wiring
def test_encoder_outputs_may_be_a_tuple(name: str, with_states: bool) -> None:
    model, target = make(name), inputs()["decoder_input_ids"]
    outputs = model.get_encoder()(**source(), output_hidden_states=with_states)
    given = {"attention_mask": source()["attention_mask"], "decoder_input_ids": target}
    expected = model(**given, encoder_outputs=outputs)
    found = model(**given, encoder_outputs=outputs.to_tuple())
    assert torch.equal(found.logits, expected.logits)
    assert (found.encoder_hidden_states is not None) == with_states


def test_features_of_a_pipeline_are_the_readouts() -> None:
    model = make("luong-feeding", BASE, dtype=torch.float32, vocab_size=len(TOKENIZER))
    found = pipeline("feature-extraction", model=model, tokenizer=TOKENIZER)("abc", return_tensors=True)
    ids = TOKENIZER("abc", return_tensors="pt")["input_ids"]
    torch.testing.assert_close(found, model(ids).last_hidden_state)


@pytest.mark.parametrize("teacher_forcing_ratio", [1.0, 0.5])
@tied_or_not
@every_wiring
def test_every_parameter_gets_a_gradient(name: str, tied: bool, teacher_forcing_ratio: float) -> None:
    """Else distributed training would wait for those that get none."""
    overrides = {"dropout": 0.2, "teacher_forcing_ratio": teacher_forcing_ratio, **(TIED if tied else {})}
    model = make(name, **overrides).train()
    model(**source(), labels=words(3, T)).loss.backward()
    assert not parameters_without_gradient(model)


@pytest.fixture
def process_group() -> Iterator[None]:
    """A group of this process alone; unused parameters are an error in it, too."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@every_wiring
def test_distributed_training_learns_its_batch(name: str) -> None:
    model = make(name, dtype=torch.float32).train()
    distributed = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(8):
        loss = distributed(**source(), labels=words(3, T)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


# Generation -----------------------------------------------------------------------------------------------------------


def generate(model: PreTrainedModel, **options: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        return model.generate(**(source() | {"max_new_tokens": 5} | options))


@every_mode
@every_wiring
def test_generate_returns_all_that_it_is_asked_for(name: str, mode: str) -> None:
    model = make(name)
    config, steps = model.config, 5
    asked = ["output_scores", "output_logits", "output_hidden_states", "output_attentions", "return_dict_in_generate"]
    # No end token, so that every step is made.
    result = generate(model, **MODES[mode], **dict.fromkeys(asked, True), suppress_tokens=[EOS])
    returned = 3 * MODES[mode].get("num_return_sequences", 1)
    rows = 3 * MODES[mode]["num_beams"] if "beam" in mode else returned
    assert result.sequences.shape == (returned, 1 + steps)
    for per_step in (result.scores, result.logits):
        assert [tuple(step.shape) for step in per_step] == [(rows, VOCAB_SIZE)] * steps
    widths = [config.embedding_size] + [config.encoder_output_size] * config.encoder_layers
    assert [tuple(states.shape) for states in result.encoder_hidden_states] == [(3, S, width) for width in widths]
    widths = [config.embedding_size] + [config.decoder_hidden_size] * config.decoder_layers + [config.readout_size]
    for step in result.decoder_hidden_states:
        assert [tuple(states.shape) for states in step] == [(rows, 1, width) for width in widths]
    shapes = [[tuple(weights.shape) for weights in step or ()] for step in result.cross_attentions]
    assert shapes == [[] if config.score == "none" else [(rows, 1, 1, S)]] * steps
    assert result.encoder_attentions is None  # there is no self-attention on either side
    assert result.decoder_attentions == (None,) * steps
    assert isinstance(result.past_key_values, RecurrentDecoderCache)
    assert result.past_key_values.get_seq_length() == steps
    if "beam" in mode:
        assert result.sequences_scores.shape == (returned,)
        assert result.beam_indices.shape == (returned, steps)
    assert torch.equal(result.sequences, generate(model, **MODES[mode], suppress_tokens=[EOS]))


@every_mode
@every_wiring
def test_generate_needs_no_cache(name: str, mode: str) -> None:
    model = make(name)
    for implementation in (None, "dynamic", "static"):
        with_cache = generate(model, **MODES[mode], cache_implementation=implementation)
        assert torch.equal(with_cache, generate(model, **MODES[mode], use_cache=False))


@every_wiring
def test_generate_goes_on_from_a_returned_cache(name: str) -> None:
    model = make(name)
    endless: dict[str, Any] = {"suppress_tokens": [EOS]}
    whole = generate(model, max_new_tokens=7, **endless)
    first = generate(model, max_new_tokens=3, return_dict_in_generate=True, **endless)
    rest = generate(
        model,
        max_new_tokens=4,
        decoder_input_ids=first.sequences,
        decoder_attention_mask=torch.ones_like(first.sequences),  # else all of them are read once more
        past_key_values=first.past_key_values,
        **endless,
    )
    assert torch.equal(rest, whole)


@every_wiring
def test_a_target_in_two_pieces_has_the_gradient_of_the_whole(name: str) -> None:
    """The cache keeps the graph."""
    gradients = []
    for pieces in ([T], [1, T - 1]):
        model = make(name)
        cache = RecurrentDecoderCache()
        loss = torch.zeros((), dtype=torch.float64)
        for piece in inputs()["decoder_input_ids"].split(pieces, dim=1):
            logits = model(**source(), decoder_input_ids=piece, past_key_values=cache).logits
            loss = loss + logits.square().sum()
        loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for whole, in_pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(in_pieces, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assistant_model": "itself"}, "assisted generation is not supported with stateful models"),
        ({"prompt_lookup_num_tokens": 2}, "assisted generation is not supported with stateful models"),
        ({"num_beams": 2, "streamer": TextStreamer(None)}, "`streamer` cannot be used with beam search"),
        ({"token_type_ids": torch.zeros(1, S)}, r"not used by the model: \['token_type_ids'\]"),
    ],
    ids=["assistant", "prompt lookup", "streamer", "unknown argument"],
)
def test_what_generate_cannot_do_is_refused_in_words(options: dict[str, Any], message: str) -> None:
    model = make("luong-feeding")
    options = {key: model if value == "itself" else value for key, value in options.items()}
    with pytest.raises(ValueError, match=message):
        model.generate(words(1, S), **options)


def test_another_kind_of_cache_is_said_to_be_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(generation_utils.logger, "warning_once", said.append)
    generate(make("luong-feeding"), cache_implementation="static")
    assert len(said) == 1
    assert "`cache_implementation` (set to static) will be ignored" in said[0]


CONTROLS: dict[str, tuple[dict[str, Any], Callable[[list[int]], bool]]] = {
    "min_new_tokens": ({"min_new_tokens": 4}, lambda new: EOS not in new[:4]),
    "min_length": ({"min_length": 4}, lambda new: EOS not in new[:3]),
    "max_length": ({"max_length": 3, "max_new_tokens": None}, lambda new: len(new) <= 2),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 1}, lambda new: len({BOS, *new}) == 1 + len(new)),
    "bad_words_ids": ({"bad_words_ids": [[word] for word in range(3, 9)]}, lambda new: not {*new} & {*range(3, 9)}),
    "forced_bos_token_id": ({"forced_bos_token_id": 7}, lambda new: new[0] == 7),
    "forced_eos_token_id": ({"forced_eos_token_id": 11, "min_new_tokens": 4}, lambda new: new[4] == 11),
    "eos_token_id": ({"eos_token_id": [*range(3, 9)]}, lambda new: not {*new[:-1]} & {*range(3, 9)}),
    "prefix_allowed_tokens_fn": (
        {"prefix_allowed_tokens_fn": lambda row, ids: [3 + row]},
        lambda new: len({*new}) == 1,
    ),
    "sequence_bias": ({"sequence_bias": {(5,): 1e3}}, lambda new: {*new} == {5}),
    "encoder_no_repeat_ngram_size": (
        {"encoder_no_repeat_ngram_size": 1},
        lambda new: not {*new} & {*words(3, S)[0].tolist()},
    ),
}


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("control", CONTROLS)
@every_wiring
def test_the_controls_of_generate_are_obeyed(name: str, control: str, num_beams: int) -> None:
    options, holds = CONTROLS[control]
    # The first source alone, for it has no padding, and without an end token unless the control is about it.
    alone = {key: tensor[:1] for key, tensor in source().items()}
    sequence = generate(make(name), **(alone | {"num_beams": num_beams} | options))[0].tolist()
    assert sequence[0] == BOS
    new = sequence[1:]
    assert holds(new[: new.index(EOS) + 1] if EOS in new and control != "forced_eos_token_id" else new)


@every_wiring
def test_a_generation_config_is_heeded_and_kept(name: str, tmp_path: Path) -> None:
    model = make(name, dtype=torch.float32)
    settings = {"num_beams": 3, "max_new_tokens": 4, "length_penalty": 0.5, "num_return_sequences": 2}
    expected = generate(model, **settings)
    as_object = generate(model, generation_config=GenerationConfig(**settings), max_new_tokens=4)
    assert torch.equal(as_object, expected)
    model.generation_config.update(**settings)
    model.save_pretrained(tmp_path)
    loaded = HEAD.from_pretrained(tmp_path)
    assert torch.equal(loaded.generate(**source()), expected)
    other = GenerationConfig.from_pretrained(tmp_path)
    assert {key: getattr(other, key) for key in settings} == settings
    assert (other.bos_token_id, other.eos_token_id, other.pad_token_id, other.decoder_start_token_id) == (1, 2, 0, 1)
