"""Every model of every family in files and copies: saving, loading, and errors."""

import copy
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from attnzoo.hub.model_code import add_code
from tests.factory import (
    BASES,
    CLASSIFIER_VARIANTS,
    COPYING_HEADS,
    FAMILIES,
    HEADS,
    KINDS,
    MODELS,
    RNN_VARIANTS,
    TRANSFORMER_VARIANTS,
    VOCAB_SIZE,
    aligned,
    auto_class_of,
    batch_for,
    every_head,
    every_kind,
    every_model,
    inputs,
    labelled,
    make_model,
    refused,
    save_folder,
    tied,
    tiny_config,
    tiny_model,
)
from tests.hub.attempts import Malicious
from tests.hub.client import environment, run_python


def compute(model: Any) -> Tensor:
    with torch.no_grad():
        return model(**inputs(model.config))[0]


def assert_same(model: Any, other: Any) -> None:
    """Check that weights and first output are equal, bit for bit."""
    weights = other.state_dict()
    assert all(torch.equal(tensor, weights[key]) for key, tensor in model.state_dict().items())
    assert torch.equal(compute(aligned(other)), compute(model))


# Saved and loaded -----------------------------------------------------------------------------------------------------


@every_model
def test_a_saved_model_loads_as_it_was(name: str, tmp_path: Path) -> None:
    model = tiny_model(name)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "generation_config.json").exists() == model.can_generate()
    for loader in (type(model), auto_class_of(name)):
        loaded, info = loader.from_pretrained(tmp_path, output_loading_info=True)
        assert type(loaded) is type(model)
        assert not any(info.values())  # nothing missing, unexpected or of another shape
        assert not loaded.training
        assert_same(model, loaded)


TIED_OR_NOT = [(name, False) for name in HEADS] + [(name, True) for name in RNN_VARIANTS]


@pytest.mark.parametrize(("name", "is_tied"), TIED_OR_NOT)
def test_head_and_base_load_each_others_weights(name: str, is_tied: bool, tmp_path: Path) -> None:
    head = tiny_model(name, **(tied(name) if is_tied else {}))
    head.save_pretrained(tmp_path / "head")
    base = AutoModel.from_pretrained(tmp_path / "head")
    assert_same(head.base_model, base)
    base.save_pretrained(tmp_path / "base")
    again, info = type(head).from_pretrained(tmp_path / "base", output_loading_info=True)
    assert set(info["missing_keys"]) == {key for key, _ in head.named_parameters() if not key.startswith("model.")}
    assert not info["unexpected_keys"]
    assert_same(head.base_model, again.base_model)


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@every_model
def test_weights_that_a_checkpoint_lacks_are_initialised(name: str, tmp_path: Path) -> None:
    """The other weights do not change. First one half of the weights is missing, then the other half, then all."""
    model = tiny_model(name, dtype=torch.float32)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    keys = sorted(saved)
    for missing in (keys[::2], keys[1::2], keys):
        others = {key: tensor for key, tensor in saved.items() if key not in missing}
        save_file(others, tmp_path / "model.safetensors", metadata={"format": "pt"})
        loaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True)
        assert set(info["missing_keys"]) - set(loaded.all_tied_weights_keys) == set(missing)
        for key, tensor in loaded.state_dict().items():
            assert tensor.isfinite().all(), key
            if key in saved:
                assert torch.equal(tensor, saved[key]) == (key not in missing), key


@every_model
def test_models_are_built_without_memory(name: str) -> None:
    model_class, variant = MODELS[name]
    with torch.device("meta"):
        model = auto_class_of(name).from_config(tiny_config(variant))
    assert type(model) is model_class
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert list(model.buffers()) == []  # a buffer would have to be made again after loading


@pytest.mark.parametrize(
    "placement",
    [{"device_map": "cpu"}, "auto", "parts"],
    ids=str,
)
@every_kind
def test_every_way_to_place_the_weights_gives_the_same_model(kind: str, placement: Any, tmp_path: Path) -> None:
    model = tiny_model(kind)
    model.save_pretrained(tmp_path)
    if placement == "auto":  # no GPU, if there is one: the inputs are on the CPU
        placement = {"device_map": "auto", "max_memory": {"cpu": "1GiB"}}
    elif placement == "parts":
        parts = [f"model.{part}" for part, _ in model.base_model.named_children()]
        heads = [part for part, _ in model.named_children() if part != "model"]
        placement = {"device_map": dict.fromkeys([*parts, *heads], "cpu")}
    assert_same(model, type(model).from_pretrained(tmp_path, **placement))


@every_head
def test_a_model_on_disk_computes_the_same(name: str, tmp_path: Path) -> None:
    """Accelerate loads a module's weights just before its forward pass, so no other module may read them."""
    model = tiny_model(name, tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    parts = [part for part, _ in model.named_children()]
    places = dict.fromkeys(parts, "disk") | {parts[-1]: "cpu"}
    loaded = type(model).from_pretrained(tmp_path, device_map=places, offload_folder=tmp_path / "offloaded")
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"meta"}
    torch.testing.assert_close(compute(loaded), compute(model), rtol=1e-11, atol=1e-12)
    if model.can_generate():
        source = {key: tensor[:5] for key, tensor in inputs(model.config).items() if key != "decoder_input_ids"}
        options = {"num_beams": 2, "max_new_tokens": 5}
        assert torch.equal(loaded.generate(**source, **options), model.generate(**source, **options))


@every_kind
def test_half_precision_files_load_as_requested_or_as_the_config_has_it(kind: str, tmp_path: Path) -> None:
    model = make_model(kind).half()
    model.save_pretrained(tmp_path)

    def dtypes(**options: Any) -> set[torch.dtype]:
        return {parameter.dtype for parameter in type(model).from_pretrained(tmp_path, **options).parameters()}

    assert dtypes() == dtypes(dtype="auto") == {torch.float16}
    for argument in ("dtype", "torch_dtype"):
        assert dtypes(**{argument: torch.bfloat16}) == {torch.bfloat16}
        assert dtypes(**{argument: "float64"}) == {torch.float64}
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))  # as a release has it
    assert dtypes() == {torch.float32}
    assert_same(model.float(), type(model).from_pretrained(tmp_path))


@every_kind
def test_weights_that_are_no_longer_tied_are_saved_for_every_module(kind: str, tmp_path: Path) -> None:
    """As PEFT leaves a model when it has trained the output apart from the embeddings, and they are merged."""
    model = make_model(kind)
    model.config.tie_word_embeddings = False
    if (head := model.get_output_embeddings()) is not None:
        head.weight = nn.Parameter(head.weight.detach() + 1)
    model.save_pretrained(tmp_path)
    assert_same(model, type(model).from_pretrained(tmp_path))


@every_kind
def test_shards_load_like_one_file(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path, max_shard_size="1KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_same(model, type(model).from_pretrained(tmp_path))


def through_state_dict(model: Any) -> Any:
    other = type(model)(model.config).to(model.dtype).eval()
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), through_state_dict]
)
@every_head
def test_copies_compute_the_same_and_share_nothing(name: str, duplicate: Callable[[Any], Any]) -> None:
    """Copies of tied models are tied."""
    model = tiny_model(name, **(tied(name) if name in RNN_VARIANTS else {}))
    other = duplicate(model)
    assert_same(model, other)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())
    if getattr(model.config, "tie_word_embeddings", False) and model.get_output_embeddings() is not None:
        assert other.get_output_embeddings().weight is other.get_input_embeddings().weight


@pytest.mark.parametrize("variant", [variant for _, _, variants, *_ in FAMILIES for variant in variants])
def test_config_round_trip(variant: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "dropout": 0.25,
        "eos_token_id": [2, 5],
        "id2label": {0: "neutral", 1: "for", 2: "against"},
    }
    config = tiny_config(variant, **given)
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert set(type(config).__annotations__) - {"is_encoder_decoder"} <= set(saved)
    assert saved["model_type"] == config.model_type
    for loaded in (AutoConfig.from_pretrained(tmp_path), type(config).from_dict(config.to_dict())):
        assert type(loaded) is type(config)
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}
        assert {key: getattr(loaded, key) for key in given} == given
        assert loaded.is_encoder_decoder == config.is_encoder_decoder
    assert type(config).from_pretrained(tmp_path, dropout=0.5).dropout == 0.5


# Vocabularies and labels of another size ------------------------------------------------------------------------------


def vocabulary_matrices(model: Any) -> list[nn.Parameter]:
    """Every embedding, and the output projection."""
    base = model.base_model
    stacks = [getattr(base, part) for part in ("encoder", "decoder") if hasattr(base, part)] or [base]
    head = model.get_output_embeddings()
    return [stack.embed_tokens.weight for stack in stacks] + ([] if head is None else [head.weight])


# For every family each size, tied and not, and every variant at least once: the code of resizing knows no variants.
SIZES = [(VOCAB_SIZE + 4, None, 17), (9, None, 9), (None, 8, 16), (17, 8, 24), (VOCAB_SIZE, None, 13)]
RESIZED: list[tuple[str, bool, Any]] = []
for _names, _tied in (
    (RNN_VARIANTS, (False, True)),
    (TRANSFORMER_VARIANTS, (False, True)),
    ([*CLASSIFIER_VARIANTS, *BASES], (False,)),
):
    _cases = list(itertools.product(SIZES, _tied))
    RESIZED += [
        (name, *reversed(case))  # type: ignore[misc]
        for name, case, _ in zip(itertools.cycle(_names), itertools.cycle(_cases), range(max(len(_names), len(_cases))))
    ]


@pytest.mark.parametrize(("name", "is_tied", "sizes"), RESIZED, ids=str)
def test_resized_vocabulary(
    name: str, is_tied: bool, sizes: tuple[int | None, int | None, int], tmp_path: Path
) -> None:
    """Words that stay keep their outputs; forward, loss, generate, save and load still work."""
    size, multiple, expected = sizes
    ties = (
        {}
        if name in BASES or name in CLASSIFIER_VARIANTS
        else tied(name)
        if is_tied
        else {"tie_word_embeddings": False}
    )
    model = tiny_model(name, **ties)
    batch = {key: ids % 9 if "input_ids" in key else ids for key, ids in inputs(model.config).items()}
    with torch.no_grad():
        before = model(**batch)[0]
        returned = model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
        after = model(**batch)[0]
    assert returned is model.get_input_embeddings()
    assert model.config.vocab_size == expected
    matrices = vocabulary_matrices(model)
    assert [len(matrix) for matrix in matrices] == [expected] * len(matrices)
    has_head = model.get_output_embeddings() is not None
    if has_head:
        assert model.lm_head.out_features == after.shape[-1] == expected
        assert len({id(matrix) for matrix in matrices}) == (1 if is_tied else len(matrices))
        before, after = (logits[..., : min(expected, VOCAB_SIZE)] for logits in (before, after))
    if name not in COPYING_HEADS:  # whose logits are probabilities, which sum to 1 over more or fewer words
        torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-12)

    last = batch | {"input_ids": torch.full_like(batch["input_ids"], expected - 1)}
    if has_head:
        last = {"input_ids": last["input_ids"], "labels": last["input_ids"]}
        model(**last).loss.backward()
        assert all(matrix.grad is not None for matrix in matrices)
    assert model(**last)[0].isfinite().all()
    source = {"input_ids": batch["input_ids"][:5], "attention_mask": batch["attention_mask"][:5]}
    options = {"num_beams": 2, "max_new_tokens": 5}
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert all(torch.equal(tensor, model.state_dict()[key]) for key, tensor in loaded.state_dict().items())
    if model.can_generate():
        generated = model.generate(**source, **options)
        assert generated.max() < expected
        assert torch.equal(aligned(loaded).generate(**source, **options), generated)


@pytest.mark.parametrize("name", [*RNN_VARIANTS, *TRANSFORMER_VARIANTS])
def test_tied_matrices_stay_one(name: str, tmp_path: Path) -> None:
    """In training, in another precision, in a copy, and in a file, which stores them once."""
    model = tiny_model(name, dtype=torch.float32, **tied(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    start = vocabulary_matrices(model)[0].clone()
    model(**labelled(model)).loss.backward()
    optimizer.step()
    assert not torch.equal(vocabulary_matrices(model)[0], start)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert sum(key.endswith(("embed_tokens.weight", "lm_head.weight")) for key in saved) == 1
    for one in (model, type(model).from_pretrained(tmp_path), copy.deepcopy(model), model.to(torch.bfloat16)):
        assert len({id(matrix) for matrix in vocabulary_matrices(one)}) == 1


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


@pytest.mark.parametrize("name", [name for name in HEADS if HEADS[name][0].__name__.endswith("Classification")])
def test_another_number_of_labels_replaces_the_last_layer_alone(name: str, tmp_path: Path) -> None:
    model = tiny_model(name, num_labels=3)
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(model).from_pretrained(tmp_path, num_labels=5)
    other = auto_class_of(name).from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    assert compute(other).shape[-1] == 5
    assert compute(other).isfinite().all()
    replaced = {"classifier.weight", "classifier.bias"}
    assert all(
        torch.equal(other.state_dict()[key], model.state_dict()[key]) for key in {*model.state_dict()} - replaced
    )


# Code that travels with the weights -----------------------------------------------------------------------------------

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
        assert sys.modules[f"{package}.fast_products"].is_untouched(model), model
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
    """Every folder as it is pushed, with its code, and its outputs in a process that has nothing else."""
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
    with torch.no_grad():
        expected = model(**batch_for(model, with_labels=False))[0]
        assert torch.equal(outputs.pop(type(model).__name__), expected)
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
def test_damaged_weights_are_refused(kind: str, tmp_path: Path) -> None:
    model, path = make_model(kind), tmp_path / "model.safetensors"
    model.save_pretrained(tmp_path)
    content = path.read_bytes()
    for end in (0, 4, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:end])
        with refused(OSError, "damaged or incomplete", tmp_path):
            type(model).from_pretrained(tmp_path)
    path.write_bytes(b"<!DOCTYPE html>" * 100)
    with refused(OSError, "damaged or incomplete", tmp_path):
        type(model).from_pretrained(tmp_path)
