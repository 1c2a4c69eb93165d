"""What holds for all families alike, asked of every one of them and of every head.

What they have of their own is in ``test_transformers_contract``, ``test_self_attentive_contract`` and
``test_small_transformer_contract``.
"""

import copy
import inspect
import io
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from attnzoo.hub.model_code import add_code
from tests.families import KINDS, batch_for, make_model, save_folder
from tests.hub.attempts import Malicious
from tests.hub.client import environment, run_python
from tests.hub.test_hub_roundtrip import aligned

every_kind = pytest.mark.parametrize("kind", KINDS)


def compute(model: Any) -> Tensor:
    with torch.no_grad():
        return model(**batch_for(model, with_labels=False))[0]


# Outputs --------------------------------------------------------------------------------------------------------------


@every_kind
def test_forward_begins_with_the_usual_arguments(kind: str) -> None:
    model = make_model(kind)
    assert list(inspect.signature(model.forward).parameters)[:2] == ["input_ids", "attention_mask"]
    assert model.main_input_name == "input_ids"


def tensors(part: Any) -> list[Tensor]:
    """All in a tuple of tensors and tuples, in order; a cache, which is neither, aside."""
    if isinstance(part, tuple):
        return [tensor for inner in part for tensor in tensors(inner)]
    return [part] if isinstance(part, Tensor) else []


@every_kind
def test_a_tuple_has_the_same_in_the_same_order(kind: str) -> None:
    """By argument and by the config."""
    model = make_model(kind)
    model.set_attn_implementation("eager")
    batch = batch_for(model) | {"output_hidden_states": True, "output_attentions": True}
    named = tensors(model(**batch).to_tuple())
    by_argument = model(**batch, return_dict=False)
    model.config.return_dict = False
    by_config = model(**batch)
    assert len(named) > 4
    for outputs in (by_argument, by_config):
        assert type(outputs) is tuple
        assert all(torch.equal(a, b) for a, b in zip(named, tensors(outputs), strict=True))


@every_kind
def test_only_dropout_makes_a_difference(kind: str) -> None:
    model = make_model(kind, dropout=0.5)
    assert torch.equal(compute(model), compute(model))
    model.train()
    assert not torch.equal(compute(model), compute(model))


@every_kind
def test_every_parameter_gets_a_gradient_and_so_do_the_embeddings(kind: str) -> None:
    model = make_model(kind, dropout=0.1).train()
    outputs = model(**batch_for(model), output_hidden_states=True)
    first = [value[0] for name, value in outputs.items() if name.endswith("hidden_states")]
    assert first
    for embeddings in first:
        embeddings.retain_grad()
    outputs.loss.backward()
    for name, tensor in [*model.named_parameters(), *((f"embeddings {n}", e) for n, e in enumerate(first))]:
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        # A bias of all keys moves every score of a row alike, which the softmax does not see.
        assert tensor.grad.any() or name.endswith("key_proj.bias"), name


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("self-attentive", {}), ("attentional-rnn-luong", {}), ("attentional-rnn", {"cell": "gru", "score": "general"})],
    ids=str,
)
def test_an_exported_recurrent_model_is_for_every_batch_and_every_mask(kind: str, fields: dict[str, Any]) -> None:
    """Of one length: ``torch.export`` unrolls torch's recurrent layers."""
    model = make_model(kind, **fields)
    names = set(inspect.signature(model.forward).parameters) - {"token_type_ids"}
    batch = {name: tensor for name, tensor in batch_for(model, with_labels=False).items() if name in names}
    rows = torch.export.Dim("rows", min=1, max=64)
    options = {"use_cache": False} if model.config.is_encoder_decoder else {}
    shapes = {name: {0: rows} for name in batch} | dict.fromkeys(options)
    exported = torch.export.export(model, (), batch | options, dynamic_shapes=shapes, strict=False).module()
    fewer = {name: tensor[:3].flip(0) for name, tensor in batch.items()}
    for other in (fewer, fewer | {"attention_mask": torch.ones_like(fewer["attention_mask"])}):
        torch.testing.assert_close(exported(**other, **options).logits, model(**other, **options).logits)


CHECKPOINTED = [(kind, fused) for kind in KINDS for fused in ((True, False) if "rnn" in kind else (True,))]


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable.*:FutureWarning")
@pytest.mark.parametrize(("kind", "fused"), CHECKPOINTED)
def test_activation_checkpointing_gives_the_same_gradients_and_stores_less(kind: str, fused: bool) -> None:
    """With dropout, of several layers, in float64; of the RNN in both of its decoder's loops."""
    layers = {"encoder_layers": 2, "decoder_layers": 2} if "rnn" in kind else {"num_hidden_layers": 2}
    model = make_model(kind, dropout=0.3, **layers).double().train()
    batch = batch_for(model) | ({} if fused else {"output_attentions": True})
    stored = []

    def run() -> tuple[list[Tensor], int]:
        stored.clear()
        torch.manual_seed(0)
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: stored.append(saved.nbytes) or saved, lambda s: s):
            loss = model(**batch).loss
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))], sum(stored)

    expected, without = run()
    for enable in (model.activation_checkpointing_enable, model.gradient_checkpointing_enable):
        enable()
        found, with_checkpointing = run()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        assert with_checkpointing < 0.6 * without
    model.eval()
    assert torch.equal(model(**batch).loss, model(**batch).loss)


@every_kind
def test_smoothing_and_the_number_of_labels_are_checked_on_every_path(kind: str) -> None:
    model = make_model(kind)
    batch, paths = batch_for(model), [{}]
    if "skip_logits" in inspect.signature(model.forward).parameters:
        paths.append({"skip_logits": True})
    for path in paths:
        for value in (-0.5, 1.5, math.nan, "0.1"):
            with pytest.raises(ValueError, match=rf"smoothing must be a number from 0 to 1, got {value!r}"):
                model(**batch, **path, smoothing=value)
        for items in (-3, torch.tensor(-3), math.nan):
            with pytest.raises(ValueError, match="num_items_in_batch must be a number of labels, 0 or more, got"):
                model(**batch, **path, num_items_in_batch=items)


@every_kind
def test_a_loss_can_be_put_on_the_attention(kind: str) -> None:
    model = make_model(kind)
    model.set_attn_implementation("eager")
    outputs = model(**batch_for(model, with_labels=False), output_attentions=True)
    maps = [weights for name, value in outputs.items() if name.endswith("attentions") and value for weights in value]
    assert maps
    sum(weights.square().sum() for weights in maps).backward()
    assert model.get_input_embeddings().weight.grad.any()


# Weights --------------------------------------------------------------------------------------------------------------


@every_kind
def test_half_precision_files_load_as_they_are_asked_for_or_as_the_config_says(kind: str, tmp_path: Path) -> None:
    model = make_model(kind).half()
    model.save_pretrained(tmp_path)

    def loaded(**options: Any) -> Any:
        return type(model).from_pretrained(tmp_path, **options)

    assert loaded().dtype == torch.float16
    for dtype in (torch.bfloat16, "float64"):
        expected = torch.float64 if dtype == "float64" else dtype
        assert {parameter.dtype for parameter in loaded(dtype=dtype).parameters()} == {expected}
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))  # as a release has it
    assert {parameter.dtype for parameter in loaded().parameters()} == {torch.float32}
    assert torch.equal(compute(aligned(loaded())), compute(model.float()))


@every_kind
def test_shards_load_like_one_file(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path, max_shard_size="1KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert torch.equal(compute(aligned(type(model).from_pretrained(tmp_path))), compute(model))


def through_torch(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def through_state_dict(model: Any) -> Any:
    other = type(model)(model.config).eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), through_torch, through_state_dict]
)
@every_kind
def test_copies_compute_the_same_and_share_nothing(kind: str, duplicate: Callable[[Any], Any]) -> None:
    model = make_model(kind)
    other = duplicate(model)
    assert torch.equal(compute(aligned(other)), compute(model))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())
    if getattr(model.config, "tie_word_embeddings", False) and model.get_output_embeddings() is not None:
        assert other.get_output_embeddings().weight is other.get_input_embeddings().weight


@every_kind
def test_a_model_on_disk_computes_the_same(kind: str, tmp_path: Path) -> None:
    """Accelerate then brings a module's weights before its forward pass: no other module may read them."""
    model = make_model(kind, tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    parts = [name for name, _ in model.named_children()]
    places = dict.fromkeys(parts, "disk") | {parts[-1]: "cpu"}
    loaded = type(model).from_pretrained(tmp_path, device_map=places, offload_folder=tmp_path / "offloaded")
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"meta"}
    torch.testing.assert_close(compute(loaded), compute(model), rtol=1e-5, atol=1e-6)


@every_kind
def test_weights_of_another_vocabulary_are_replaced_on_request(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(model).from_pretrained(tmp_path, vocab_size=20)
    larger = type(model).from_pretrained(tmp_path, vocab_size=20, ignore_mismatched_sizes=True)
    assert compute(larger).isfinite().all()
    before, after = model.state_dict(), larger.state_dict()
    of_words = {name for name in before if "embed_tokens" in name or name == "lm_head.weight"}
    assert {len(after[name]) for name in of_words} == {20}
    assert all(torch.equal(after[name], before[name]) for name in before.keys() - of_words)


# What a user does who has not installed the package: take the code that came with the weights.
LOAD_WITHOUT_THE_PACKAGE = """
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

root = Path(sys.argv[1])
for folder in sorted(path for path in root.iterdir() if path.is_dir()):
    inputs = load_file(folder / "inputs")
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    source = {name: tensor for name, tensor in inputs.items() if name != "decoder_input_ids"}
    outputs = {}
    for auto in sorted(config.auto_map.keys() - {"AutoConfig"}):
        model = getattr(transformers, auto).from_pretrained(folder, trust_remote_code=True)
        assert type(model).__module__.startswith("transformers_modules."), type(model)
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()  # as aligned() does
        package = type(model).__module__.rpartition(".")[0]
        assert sys.modules[f"{package}.loss"].is_untouched(model), model
        with torch.no_grad():
            outputs[type(model).__name__] = model(**inputs)[0].contiguous()
            if type(model).__name__ in config.architectures:
                outputs["loss"] = model(**load_file(folder / "batch")).loss
        if model.can_generate():
            outputs["generated"] = model.generate(**source, num_beams=3, max_new_tokens=5).contiguous()
    save_file(outputs, root / f"{folder.name}.safetensors")
try:
    import attnzoo
    sys.exit("attnzoo can be imported here")
except ImportError:
    pass
"""


@pytest.fixture(scope="module")
def loaded_without_the_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every folder as a push has it, with its code, and its outputs in a process that has nothing else."""
    root = tmp_path_factory.mktemp("without")
    for kind in KINDS:
        folder = save_folder(kind, root / kind)
        add_code(folder)
        save_file(batch_for(make_model(kind), with_labels=False), folder / "inputs")
        save_file(batch_for(make_model(kind)), folder / "batch")
    home = tmp_path_factory.mktemp("home")
    offline = environment("http://127.0.0.1:1", home, None, xet=False, HF_HUB_OFFLINE="1")
    ended = run_python("-c", LOAD_WITHOUT_THE_PACKAGE, str(root), environment=offline, cwd=home, without_attnzoo=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return root


@every_kind
def test_the_code_travels_with_the_weights(kind: str, loaded_without_the_package: Path) -> None:
    outputs = load_file(loaded_without_the_package / f"{kind}.safetensors")
    model = make_model(kind)
    assert torch.equal(outputs.pop(type(model).__name__), compute(model))
    with torch.no_grad():
        assert torch.equal(outputs.pop("loss"), model(**batch_for(model)).loss)
    if model.can_generate():
        source = {name: tensor for name, tensor in batch_for(model, False).items() if name != "decoder_input_ids"}
        assert torch.equal(outputs.pop("generated"), model.generate(**source, num_beams=3, max_new_tokens=5))
    assert outputs  # the model without a head, and other heads that its pattern has
    code = {path.stem for path in (loaded_without_the_package / kind).glob("*.py")}
    family = model.config.model_type
    assert {name for name in code if name.startswith(("modeling", "configuration"))} == {
        f"modeling_{family}",
        f"configuration_{family}",
    }
    assert any("recurrent" in name for name in code) == (family != "small_transformer")


@every_kind
def test_no_pickle_is_ever_loaded(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*model*")] == ["model.safetensors"]
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")  # a good one, even
    with pytest.raises(OSError, match=r"model\.safetensors"):
        type(model).from_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        type(model).from_pretrained(tmp_path, use_safetensors=None)
    with pytest.raises(ValueError, match="use_safetensors=False would load a pickle, which may run code"):
        type(model).from_pretrained(tmp_path, use_safetensors=False)
    mark = tmp_path / "was run"
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Malicious(mark)))
    with pytest.raises(OSError, match="damaged or incomplete"):
        type(model).from_pretrained(tmp_path)
    assert not mark.exists()
    pickle.loads((tmp_path / "model.safetensors").read_bytes()).close()
    assert mark.exists()  # so it is one that would have been seen


@every_kind
def test_damaged_weights_are_said_to_be(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match="damaged or incomplete") as caught:
        type(model).from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)
