"""How every model of every family reads masks, ids, labels, and arguments that it does not know."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    Trainer,
    pipeline,
)
from transformers.utils.generic import TransformersKwargs

from attnzoo import AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig
from attnzoo.model_inputs import read_mask
from tests.factory import (
    KINDS,
    TOKENIZER,
    batch_for,
    every_kind,
    letter_tokenizer,
    make_model,
    make_trainer,
    refused,
    rows_for,
)

HALF_MIN = torch.finfo(torch.float16).min
# [1, 1, 0] in every way that Hugging Face has.
FORMS: dict[str, Tensor] = {
    "long": torch.tensor([1, 1, 0]),
    "bool": torch.tensor([True, True, False]),
    "uint8": torch.tensor([1, 1, 0], dtype=torch.uint8),
    "float": torch.tensor([1.0, 1.0, 0.0]),
    "bfloat16": torch.tensor([1.0, 1.0, 0.0], dtype=torch.bfloat16),
    "additive": torch.tensor([0.0, 0.0, -1e9]),
    "additive, -inf": torch.tensor([0.0, 0.0, -torch.inf]),
    "additive, float16": torch.tensor([0.0, 0.0, HALF_MIN], dtype=torch.float16),
}
NEITHER: dict[str, tuple[Any, str]] = {
    "NaN": (torch.tensor([1.0, 1.0, torch.nan]), "got nan"),
    "half": (torch.tensor([1.0, 1.0, 0.5]), "got 0.5"),
    "two": (torch.tensor([1, 1, 2]), "got 2"),
    "additive, of whole numbers": (torch.tensor([0, 0, -10000]), "got -10000"),
    "additive, small": (torch.tensor([0.0, 0.0, -1.0]), "got -1"),
    "additive and not": (torch.tensor([1.0, 0.0, -1e9]), "got 1"),
    "all 0": (torch.tensor([0.0, 0.0, 0.0]), "all 0"),
    "list": ([1, 1, 0], "got list"),
    "numpy": (np.array([1, 1, 0]), "got ndarray"),
}


def masks_of(model: Any) -> list[str]:
    return ["attention_mask"] + ["decoder_attention_mask"] * model.config.is_encoder_decoder


def small_batch(model: Any, rows: int = 1) -> dict[str, Tensor]:
    """A batch of three tokens, in the source and in the target."""
    batch = {"input_ids": torch.tensor([[7, 8, 9]] * rows)}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.tensor([[1, 7, 8]] * rows)
    if getattr(model.config, "sentence_pair", False):
        batch["token_type_ids"] = torch.tensor([[0, 1, 1]] * rows)
    return batch


# Masks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@every_kind
def test_a_mask_says_the_same_in_every_form(kind: str, form: str) -> None:
    model = make_model(kind)
    for name in masks_of(model):
        expected = model(**small_batch(model), **{name: FORMS["bool"][None]})[0]
        assert torch.equal(model(**small_batch(model), **{name: FORMS[form][None]})[0], expected)
        assert not torch.equal(model(**small_batch(model))[0], expected) or name == "decoder_attention_mask"


@pytest.mark.parametrize("form", NEITHER)
@every_kind
def test_other_masks_are_refused_by_name(kind: str, form: str) -> None:
    model = make_model(kind)
    mask, said = NEITHER[form]
    for name in masks_of(model):
        with refused((ValueError, TypeError), f"{name} ", said):
            model(**small_batch(model), **{name: mask[None] if not isinstance(mask, list) else [mask]})


def test_a_graph_reads_an_additive_mask_too() -> None:
    """In a graph, which cannot check the values, the mask has the same effect."""
    compiled = torch.compile(read_mask, backend="eager", fullgraph=True)
    for mask in FORMS.values():
        assert torch.equal(compiled(mask, "attention_mask"), FORMS["bool"])


@every_kind
def test_embeddings_that_are_not_finite(kind: str) -> None:
    """Under padding they have no effect; elsewhere they raise an error."""
    model = make_model(kind)
    batch = small_batch(model)
    sides = ["", "decoder_"] if model.config.is_encoder_decoder else [""]
    for side in sides:
        embeddings = model.get_input_embeddings()(batch[f"{side}input_ids"]).detach()
        others = {name: value for name, value in batch.items() if name != f"{side}input_ids"}
        mask = {f"{side}attention_mask": FORMS["long"][None]}
        expected = model(**others, **mask, **{f"{side}inputs_embeds": embeddings})[0]
        odd = embeddings.clone()
        odd[:, 2] = torch.nan
        found = model(**others, **mask, **{f"{side}inputs_embeds": odd})[0]
        assert found.isfinite().all()
        places = slice(0, 2) if found.ndim == 3 and (side or not model.config.is_encoder_decoder) else slice(None)
        assert torch.equal(found[:, places], expected[:, places])
        with refused(ValueError, f"{side}inputs_embeds has values that are not finite"):
            model(**others, **{f"{side}inputs_embeds": odd})


# Ids and labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8], ids=str)
@every_kind
def test_ids_and_labels_of_every_integer_type(kind: str, dtype: torch.dtype) -> None:
    model = make_model(kind)
    batch = batch_for(model)
    batch["labels"] = batch["labels"].clamp(min=0)  # which an unsigned type has
    narrow = {name: tensor.to(dtype) for name, tensor in batch.items()}
    assert torch.equal(model(**narrow).loss, model(**batch).loss)


@pytest.mark.parametrize(
    "make",
    [
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        str,
        torch.Tensor.float,
        torch.Tensor.bool,
        lambda ids: {"input_ids": ids},
    ],
    ids=["list", "ndarray", "str", "float", "bool", "batch"],
)
@every_kind
def test_ids_of_another_type(kind: str, make: Any) -> None:
    model = make_model(kind)
    batch = small_batch(model)
    for name in batch:
        with refused(TypeError, f"{name} must be a tensor of whole numbers"):
            model(**batch | {name: make(batch[name])})


@every_kind
def test_labels_of_another_type_or_out_of_range(kind: str) -> None:
    model = make_model(kind)
    batch = batch_for(model)
    with refused(TypeError, "labels must be a tensor, got list"):
        model(**batch | {"labels": batch["labels"].tolist()})
    for wrong in (-1, 10**9):
        labels = batch["labels"].clone()
        labels.view(-1)[0] = wrong
        with refused(ValueError, "label", wrong, "out of range"):
            model(**batch | {"labels": labels})
    if model.get_output_embeddings() is not None:
        with refused(TypeError, "labels must be a tensor of whole numbers, got a tensor of float32"):
            model(**batch | {"labels": batch["labels"].float()})


# Unknown arguments ----------------------------------------------------------------------------------------------------


@every_kind
def test_an_unknown_argument(kind: str) -> None:
    model = make_model(kind)
    for name, said in (("atention_mask", "did you mean attention_mask?"), ("zzz", "it takes input_ids")):
        with refused(TypeError, f"{type(model).__name__} has no argument {name}", said):
            model(**small_batch(model), **{name: torch.ones(1, 3)})
    for name in ("cache_position", "head_mask", "output_router_logits", "with_penalty"):
        with refused(TypeError, f"has no argument {name}"):
            model(**small_batch(model), **{name: torch.ones(3)})


@every_kind
def test_segments_are_used_or_refused(kind: str) -> None:
    model = make_model(kind)
    if kind.startswith("self-attentive"):  # which has the argument
        return
    batch = small_batch(model)
    zeros = torch.zeros(1, 3, dtype=torch.long)
    assert torch.equal(model(**batch, token_type_ids=zeros)[0], model(**batch)[0])
    with refused(ValueError, "token_type_ids has other values than 0"):
        model(**batch, token_type_ids=torch.tensor([[0, 1, 1]]))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("transformer-encoder-decoder",)])
def test_arguments_of_transformers_without_a_value(kind: str) -> None:
    model = make_model(kind)
    nothing = dict.fromkeys(TransformersKwargs.__optional_keys__)
    assert torch.equal(model(**small_batch(model), **nothing)[0], model(**small_batch(model))[0])


@every_kind
def test_what_transformers_hands_over_is_known(kind: str, tmp_path: Path) -> None:
    """By the Trainer, with gradients accumulated and labels smoothed, its collators, generate() and the pipelines."""
    model = make_model(kind)
    settings: dict[str, Any] = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    if model.config.is_encoder_decoder:
        settings |= {"predict_with_generate": True, "generation_max_length": 5}
    trainer = make_trainer(model, tmp_path, **settings)
    trainer.train()
    trainer.predict(trainer.eval_dataset)
    model.eval()
    inputs = TOKENIZER(["ab", "bcd"], return_tensors="pt", padding=True, return_token_type_ids=False)
    if model.can_generate():
        ways: list[dict[str, Any]] = [{}, {"num_beams": 2}, {"do_sample": True, "top_k": 3}, {"use_cache": False}]
        ways += [{"num_beams": 2, "do_sample": True}, {"return_dict_in_generate": True, "output_attentions": True}]
        for way in ways:
            model.generate(**inputs, max_new_tokens=3, **way)
    if kind.startswith("transformer") and model.can_generate():
        one = {name: tensor[:1] for name, tensor in inputs.items()}
        model.generate(**one, assistant_model=make_model(kind, seed=1), max_new_tokens=3)
        model.generate(**one, prompt_lookup_num_tokens=2, max_new_tokens=3)
    tasks = {"ForSequenceClassification": "text-classification", "ForMaskedLM": "fill-mask"}
    tasks["ForCausalLM"] = "text-generation"
    for suffix, task in tasks.items():
        if type(model).__name__.endswith(suffix) and kind != "self-attentive-pair":
            text = "a<mask>c" if task == "fill-mask" else "abc"
            options = {"max_new_tokens": 3} if task == "text-generation" else {}
            # A tokenizer of its own: a pipeline may set its padding side.
            assert pipeline(task, model=model, tokenizer=letter_tokenizer())([text, text[:7]], **options)


@pytest.mark.parametrize("kind", ["transformer-masked", "transformer-causal"])
def test_collators_of_language_models_are_known(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    rows = [{"input_ids": row["input_ids"], "attention_mask": row["attention_mask"]} for row in rows_for(model)]
    trainer = make_trainer(model, tmp_path)
    batch = DataCollatorForLanguageModeling(TOKENIZER, mlm=kind == "transformer-masked", mlm_probability=0.5)(rows)
    assert trainer.compute_loss(model, dict(batch)).isfinite()
    labelled = [row | {"labels": row["input_ids"]} for row in rows]
    assert Trainer(model=model, args=trainer.args).compute_loss(
        model, dict(DataCollatorForTokenClassification(TOKENIZER)(labelled))
    )


# Configs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config_class", "given"),
    [
        (AttentionalRNNConfig, {"decoder_layers": 10**5}),
        (AttentionalRNNConfig, {"num_labels": 10**8}),
        (AttentionalRNNConfig, {"encoder_hidden_size": 10**6}),
        (SelfAttentiveConfig, {"num_hops": 10**5}),
        (SelfAttentiveConfig, {"num_labels": 10**8}),
        (SelfAttentiveConfig, {"vocab_size": 10**9}),
        (SmallTransformerConfig, {"num_hidden_layers": 10**5}),
        (SmallTransformerConfig, {"intermediate_size": 10**6}),
        (SmallTransformerConfig, {"num_labels": 10**8}),
    ],
    ids=str,
)
def test_sizes_beyond_every_limit(config_class: Any, given: dict[str, int]) -> None:
    name, value = next(iter(given.items()))
    with refused((StrictDataclassError, ValueError), name, "must be at most", f"{value:,}"):
        config_class(**given)


@pytest.mark.parametrize("value", [-1, 10, [2, 10]], ids=str)
@pytest.mark.parametrize("name", ["pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"])
@pytest.mark.parametrize("config_class", [AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig])
def test_special_tokens_outside_the_vocabulary(config_class: Any, name: str, value: Any) -> None:
    if isinstance(value, list) and name != "eos_token_id":
        return
    if not hasattr(config_class, name):
        return
    with refused(StrictDataclassError, f"{name} must be within the vocabulary, 0 to 9", value):
        config_class(vocab_size=10, **{name: value})


LABELS = [{"one": "a"}, {}, [], ["a", "b"], {0: "a", 2: "b"}, 3]


@pytest.mark.parametrize(
    "given", [{"dtype": "float31"}, {"num_labels": 2.5}, *({"id2label": labels} for labels in LABELS)], ids=str
)
def test_what_transformers_would_trip_over(given: dict[str, Any]) -> None:
    for config_class in (AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig):
        with refused(ValueError, next(iter(given))):
            config_class(**given)


@pytest.mark.parametrize("given", [{"hidden_size": 2**16}, {"vocab_size": 10**7}], ids=str)
def test_a_config_that_is_not_that_of_its_weights(given: dict[str, int], tmp_path: Path) -> None:
    """The error comes before the memory is allocated: 260 GB in one case."""
    make_model("transformer-causal").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2} | given))
    with refused(ValueError, "the config asks for", "weights and the files next to it have"):
        AutoModelForCausalLM.from_pretrained(tmp_path)
