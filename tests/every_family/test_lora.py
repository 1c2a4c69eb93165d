"""LoRA of PEFT on every family: the adapted modules are those in the docs; training, and merging into one model."""

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from peft import AutoPeftModel, LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.attention import SCORES
from tests.factory import (
    HEADS,
    KINDS,
    RNN_SIZES,
    TOKENIZER,
    TRANSFORMER_VARIANTS,
    aligned,
    auto_class_of,
    batch_for,
    every_kind,
    make_model,
    make_trainer,
    save_folder,
    tiny_config,
    tiny_model,
    weights,
)

FINE_TUNING = (Path(__file__).parents[2] / "docs" / "fine_tuning.md").read_text(encoding="utf-8")


# What it reaches ------------------------------------------------------------------------------------------------------


def names_in_the_docs(family: str) -> set[str]:
    """The modules that the table of adapters has for a family."""
    (row,) = re.findall(rf"^\| {family} \|(.*_proj.*)\|$", FINE_TUNING, flags=re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def linear_modules(model: nn.Module) -> set[str]:
    return {name.split(".")[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def with_adapters(model: nn.Module, **options: Any) -> set[str]:
    """The modules that "all-linear" puts an adapter on."""
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", **options))  # type: ignore[arg-type]
    return {name.split(".")[-1] for name, module in adapted.named_modules() if hasattr(module, "lora_A")}


def every_rnn() -> Iterable[nn.Module]:
    """Every valid combination of wiring, score, window and kind of start state. LSTM cells need every module that other
    cells need.
    """
    fields = AttentionalRNNConfig.__dataclass_fields__
    wirings, windows = (re.findall(r"'(\w+)'", str(fields[name].type)) for name in ("wiring", "window"))
    choices = [wirings, ["none", *SCORES], windows]
    sizes = ((4, True), (4, False), (8, False))  # the encoder's width and directions
    found = 0
    for wiring, score, window, width, (encoder, bidirectional) in itertools.product(*choices, (6, 8), sizes):
        named: dict[str, Any] = {"wiring": wiring, "score": score, "window": window, "cell": "lstm"}
        named["copy"] = score == "general" and window == "global"  # of which a copying model has one more
        named |= {"decoder_hidden_size": width, "encoder_hidden_size": encoder, "bidirectional": bidirectional}
        if wiring == "sutskever":
            named["readout_size"] = width
        try:
            config = AttentionalRNNConfig(**(RNN_SIZES | named))
        except StrictDataclassClassValidationError:
            continue
        found += 1
        with torch.device("meta"):
            yield AttentionalRNNForConditionalGeneration(config)
    assert found > 50


def every_transformer() -> Iterable[nn.Module]:
    for variant in TRANSFORMER_VARIANTS:
        config = tiny_config(variant)
        for model_class in {head for head, _ in HEADS.values()}:
            if config.attention_pattern in getattr(model_class, "attention_patterns", ()):
                yield model_class(config)


@pytest.mark.parametrize(
    ("family", "models"),
    [
        ("attentional RNN", every_rnn),
        ("self-attentive classifier", lambda: map(make_model, ("self-attentive", "self-attentive-pair"))),
        ("Transformer", every_transformer),
    ],
)
def test_the_docs_name_every_linear_module_and_no_other(family: str, models: Any) -> None:
    found = [linear_modules(model) for model in models()]
    assert set().union(*found) == names_in_the_docs(family)


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@every_kind
def test_all_linear_is_all_but_the_output_projection(kind: str) -> None:
    every = linear_modules(make_model(kind))
    assert with_adapters(make_model(kind)) == every - {"lm_head"}
    if "classifier" in every:
        assert with_adapters(make_model(kind), task_type="SEQ_CLS") == every - {"classifier"}


def test_sutskevers_decoder_has_nothing_else_to_adapt() -> None:
    model = tiny_model("sutskever-lstm-2-layers-reversed")
    assert linear_modules(model) == {"lm_head"}
    with pytest.raises(ValueError, match="No `target_modules` passed"):
        with_adapters(model)


# From the Trainer to one model ----------------------------------------------------------------------------------------


def in_double(model: Any, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return aligned(model.double().eval())(**batch).logits


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@every_kind
def test_adapters_are_trained_saved_loaded_and_merged(kind: str, tmp_path: Path) -> None:
    base = save_folder(kind, tmp_path / "base")
    auto = auto_class_of(kind)
    model = auto.from_pretrained(base)
    like = make_trainer(model, tmp_path / "run", max_steps=3, learning_rate=0.05)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear"))
    adapters = weights(adapted)
    trainer = type(like)(
        model=adapted,
        args=like.args,
        train_dataset=like.train_dataset,
        data_collator=like.data_collator,
        processing_class=TOKENIZER,
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "adapter"))

    of_base = {name.replace(".base_layer", ""): tensor for name, tensor in model.state_dict().items()}
    assert all(torch.equal(of_base[name], tensor) for name, tensor in before.items())
    changed = {name for name, tensor in adapted.named_parameters() if not torch.equal(tensor, adapters[name])}
    assert changed == {name for name, _ in adapted.named_parameters() if "lora_" in name}
    saved = {path.name for path in (tmp_path / "adapter").iterdir()}
    assert "adapter_model.safetensors" in saved
    assert not {"model.safetensors", "adapter_model.bin"} & saved

    batch = batch_for(make_model(kind), with_labels=False)
    expected = in_double(adapted, batch)
    assert not torch.allclose(expected, in_double(auto.from_pretrained(base), batch), atol=1e-3)
    added = auto.from_pretrained(base)
    added.load_adapter(str(tmp_path / "adapter"))
    loaded = {
        "onto a model": PeftModel.from_pretrained(auto.from_pretrained(base), tmp_path / "adapter"),
        "with its model, by PEFT": AutoPeftModel.from_pretrained(tmp_path / "adapter", import_allowlist=["attnzoo"]),
        "with its model, by Transformers": auto.from_pretrained(tmp_path / "adapter"),
        "as one of several": added,
    }
    for way, again in loaded.items():
        torch.testing.assert_close(in_double(again, batch), expected, rtol=1e-12, atol=1e-12, msg=way)

    merged = adapted.merge_and_unload()
    assert type(merged) is HEADS[KINDS[kind]][0]
    torch.testing.assert_close(in_double(merged, batch), expected, rtol=1e-10, atol=1e-10)
    merged.save_pretrained(tmp_path / "merged")
    whole = auto.from_pretrained(tmp_path / "merged")
    assert all(torch.equal(whole.state_dict()[name], tensor) for name, tensor in merged.state_dict().items())
    torch.testing.assert_close(in_double(whole, batch), in_double(merged, batch), rtol=1e-12, atol=1e-12)
