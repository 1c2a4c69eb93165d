"""Private names of torch and Transformers: read in one file, each with a public fallback with the same results."""

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import Pipeline, PreTrainedModel
from transformers.generation import GenerationMixin

from attnzoo import library_internals, search
from attnzoo.decoding import repeated_product
from attnzoo.decoding.repeated_product import RepeatedProduct
from attnzoo.export import to_onnx
from attnzoo.fast_products import is_untouched
from attnzoo.fast_weight_copies import FEW_PRODUCTS
from attnzoo.library_internals import BACKWARD_HOOKS, FORWARD_HOOKS, attention_backend, hooks_of
from attnzoo.recurrent_cells import PaddedLSTM, run_lstms
from tests.factory import KINDS, batch_for, make_model, words
from tests.package.test_layers import PACKAGE, nodes

# Members that the authors of models and pipelines define, or that Transformers sets for them.
OF_MODELS = {
    *("_can_compile_fullgraph", "_can_record_outputs", "_gradient_checkpointing_func", "_init_weights", "_is_stateful"),
    *("_no_split_modules", "_supports_attention_backend", "_supports_flex_attn", "_supports_sdpa"),
    *("_tied_weights_keys", "_load_pretrained_model"),
}
OF_GENERATION = {
    *("_expand_inputs_for_generation", "_prepare_generation_config", "_prepare_position_ids_for_generation"),
    *("_extract_generation_mode_kwargs", "_reorder_cache", "_supports_default_dynamic_cache"),
}
OF_PIPELINES = {
    *("_load_feature_extractor", "_load_image_processor", "_load_processor", "_load_tokenizer"),
    *("_forward", "_sanitize_parameters"),
}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names() -> set[str]:
    """Every private name that the package itself defines: functions, classes, variables, attributes of its objects."""
    found = set()
    for node in (node for path in PACKAGE for node in nodes(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def names_read(node: ast.AST) -> list[str]:
    """The names that a node reads of an object or a library."""
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "delattr"):
        return [ast.unparse(node.args[1]).strip("'")]
    return [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_no_other_file_reads_a_private_name_of_a_library() -> None:
    public = {"_asdict", "_fields", "_replace", "_exit"}  # of a NamedTuple, and of os
    known = own_names() | OF_MODELS | OF_GENERATION | OF_PIPELINES | public
    read = {(path.stem, name) for path in PACKAGE for node in nodes(path) for name in names_read(node) if private(name)}
    foreign = {(file, name) for file, name in read if name not in known}
    assert {file for file, _ in foreign} == {"library_internals"}, foreign


def test_the_library_still_has_what_the_package_overrides() -> None:
    """An override of a removed step would do nothing, silently: a pickle would be loaded, for example."""
    set_on_instances, looked_for = {"_gradient_checkpointing_func"}, {"_reorder_cache"}
    assert not {name for name in OF_MODELS - set_on_instances if not hasattr(PreTrainedModel, name)}
    assert not {name for name in OF_GENERATION - looked_for if not hasattr(GenerationMixin, name)}
    assert not {name for name in OF_PIPELINES if not hasattr(Pipeline, name)}


def without(kinds: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_that_is_gone": register for name, register in kinds.items()}


def test_hooks_are_found_without_their_private_names() -> None:
    layer = nn.Linear(2, 2)

    def hook(*_: Any) -> None: ...

    for kinds in (FORWARD_HOOKS, BACKWARD_HOOKS):
        assert hooks_of(layer, kinds) == hooks_of(layer, without(kinds)) == []
        for register in kinds.values():
            handle = register(layer, hook)
            assert hooks_of(layer, kinds) == hooks_of(layer, without(kinds)) == [hook]
            handle.remove()
    assert hooks_of(layer, FORWARD_HOOKS) == []


@pytest.mark.parametrize("kind", ["attentional-rnn", "transformer-encoder-decoder", "transformer-causal"])
def test_hooks_that_transformers_leaves_behind_disturb_neither_search_nor_export(kind: str, tmp_path: Path) -> None:
    model = make_model(kind).eval()
    options: dict[str, Any] = {"custom_generate": search, "max_new_tokens": 4}
    expected = model.generate(words(2, 3), **options)
    model(**batch_for(model), output_attentions=True, output_hidden_states=True)
    model.activation_checkpointing_enable()
    model.activation_checkpointing_disable()
    assert [hook for part in model.modules() for hook in hooks_of(part, FORWARD_HOOKS)]
    assert is_untouched(model)
    assert torch.equal(model.generate(words(2, 3), **options), expected)
    to_onnx(model, tmp_path / "out")


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_computes_the_same_without_the_private_names(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(kind)
    batch = batch_for(model)
    expected = model(**batch).loss
    monkeypatch.setattr("attnzoo.library_internals.FORWARD_HOOKS", without(FORWARD_HOOKS))
    monkeypatch.setattr("attnzoo.library_internals.BACKWARD_HOOKS", without(BACKWARD_HOOKS))
    monkeypatch.setattr("attnzoo.library_internals.HOOKS", ["a_name_that_is_gone"])
    assert is_untouched(model)
    assert torch.equal(model(**batch).loss, expected)


@pytest.mark.parametrize("name", ["REORDER_WEIGHT", "BLOCKED_LINEAR", "VERSION"])
def test_a_repeated_product_is_the_same_without_the_private_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_internals, name, "a_name_that_is_gone")
    monkeypatch.setattr(repeated_product, "LARGE", 0)
    layers = nn.Linear(32, 8), nn.Linear(32, 16)
    values = torch.randn(5, 32)
    expected = torch.cat([layer(values) for layer in layers], dim=1)
    with torch.no_grad():
        product = RepeatedProduct.of(*layers)
        for _ in range(FEW_PRODUCTS + 1):
            torch.testing.assert_close(product(values), expected)
    if name == "VERSION":  # then nobody could tell whether a copy is still right
        assert product.copies is None
    else:
        assert product.copies is not None
        assert "blocks" not in product.copies.made


@pytest.mark.parametrize("name", ["REORDER_LSTM", "BLOCKED_LSTM"])
def test_an_lstm_is_the_same_without_the_private_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [PaddedLSTM(5, 4, batch_first=True) for _ in range(2)]
    inputs = torch.randn(2, 6, 5)
    expected = run_lstms(layers, inputs, None)[0].detach()
    monkeypatch.setattr(library_internals, name, "a_name_that_is_gone")
    with torch.no_grad():
        for _ in range(FEW_PRODUCTS + 2):
            torch.testing.assert_close(run_lstms(layers, inputs, None)[0], expected)


def test_a_config_without_the_private_name_has_the_eager_backend() -> None:
    model = make_model("transformer-causal")
    batch = batch_for(model)
    assert attention_backend(model.config) == "sdpa"
    assert attention_backend(object()) == "eager"
    expected = model(**batch).logits
    model.set_attn_implementation("eager")
    torch.testing.assert_close(model(**batch).logits, expected)
