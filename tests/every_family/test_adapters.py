"""Every method of PEFT that the docs name, on every head: it is trained, saved, loaded and merged, or raises an error
with a reason.

``test_lora.py`` has the modules that LoRA reaches, and the way through ``Trainer``.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from peft import (
    IA3Config,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptEncoderConfig,
    PromptTuningConfig,
    get_peft_model,
)
from torch import Tensor, nn
from transformers import DistilBertConfig, DistilBertModel

import attnzoo
from attnzoo import SmallTransformerForMaskedLM
from attnzoo.registration import ADAPTED_MODULES
from tests.factory import (
    CLASSIFIER_VARIANTS,
    COPYING_HEADS,
    GENERATING_HEADS,
    HEADS,
    KINDS,
    RNN_VARIANTS,
    TOKENIZER,
    aligned,
    batch_for,
    make_model,
    refused,
    weights,
)

TASKS = {
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "ForCausalLM": "CAUSAL_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
}
METHODS: dict[str, Any] = {
    "lora": lambda **options: LoraConfig(r=2, **options),
    "ia3": IA3Config,
    "ia3 of named modules": IA3Config,
    "prompt tuning": lambda **options: PromptTuningConfig(num_virtual_tokens=3, **options),
    "p-tuning": lambda **options: PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=5, **options),
    "prefix tuning": lambda **options: PrefixTuningConfig(num_virtual_tokens=3, **options),
}
PROMPTS = ("prompt tuning", "p-tuning")
POOLED = ("pooled-transformer", "pooled-distilbert")
# Every kind, and what has other modules or other inputs.
NAMES = [*KINDS.values(), *POOLED, "cho-cho_gru-forward", "sutskever-lstm-2-layers-reversed"]
NAMES += ["luong-lstm-concat-copy-coverage", "encoder_decoder-pre-sinusoidal-copy", "encoder_decoder-pre-learned"]
# test_lora.py trains these, too, and CASES has others of their family and task.
LORA_ELSEWHERE = [KINDS[kind] for kind in ("attentional-rnn", "attentional-rnn-luong", "self-attentive-pair")]
LORA_ELSEWHERE += [KINDS[kind] for kind in ("transformer-encoder-decoder", "transformer-causal-classifier")]
CASES = [
    (name, method)
    for name in NAMES
    for method in METHODS
    if method != "lora" or name not in LORA_ELSEWHERE
    # PEFT has no task type for a masked language model.
    if not (HEADS.get(name, (Any,))[0] is SmallTransformerForMaskedLM and method not in ("lora", "ia3"))
]


def pooled(name: str) -> Any:
    encoder = make_model("transformer-masked").model
    if name == "pooled-distilbert":
        torch.manual_seed(0)
        sizes = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 9}
        encoder = DistilBertModel(DistilBertConfig(vocab_size=len(TOKENIZER), dropout=0.0, **sizes))
    return attnzoo.with_self_attentive_pooling(encoder, num_hops=2, classifier_size=8, classifier_dropout=0.0)


def model_of(name: str) -> Any:
    torch.manual_seed(0)
    model = pooled(name) if name in POOLED else make_model(name)
    return aligned(model.double())


def sizes_of_prompts(config: Any) -> dict[str, int]:
    """The sizes that PEFT cannot read from the configs of recurrent and pooled models, as in the docs."""
    if config.model_type == "pooled_encoder":
        encoder = config.encoder
        layers, heads = encoder.num_hidden_layers, encoder.num_attention_heads
        return {"token_dim": encoder.hidden_size, "num_layers": layers, "num_attention_heads": heads}
    return {"token_dim": config.embedding_size, "num_layers": 1, "num_attention_heads": 1}


def adapted(name: str, method: str) -> Any:
    model = model_of(name)
    task = next((task for end, task in TASKS.items() if type(model).__name__.endswith(end)), None)
    options: dict[str, Any] = {"task_type": task}
    if method == "ia3 of named modules":
        linear = {path.split(".")[-1] for path, module in model.named_modules() if isinstance(module, nn.Linear)}
        options |= {"target_modules": sorted(linear - {"lm_head", "classifier"}), "feedforward_modules": []}
    elif not method.startswith(("lora", "ia3")) and model.config.model_type != "small_transformer":
        options |= sizes_of_prompts(model.config)
    torch.manual_seed(0)
    return get_peft_model(model, METHODS[method](**options)).double()


def reason(name: str, method: str) -> tuple[Any, str] | None:
    """The error for a method that a model does not support; None for one that it supports."""
    if name.startswith("sutskever") and method == "lora":  # the output projection is its only linear module
        return ValueError, "No `target_modules` passed"
    if name.startswith("sutskever") and method.startswith("ia3"):
        return ValueError, "`target_modules` passed" if "named" in method else "not found in the base model"
    if name in POOLED and method == "ia3":  # whose names are the encoder's
        return ValueError, "Please specify `target_modules`"
    if method in PROMPTS and name in COPYING_HEADS:
        return ValueError, "copy=True copies tokens of the source and needs them"
    if method in PROMPTS and name.startswith("tagger"):  # as with BERT, PEFT leaves the labels as they are
        return ValueError, "labels of shape (7, 11) do not fit a text of shape (7, 14)"
    if method == "prefix tuning" and name in RNN_VARIANTS:
        return TypeError, "a recurrent decoder carries a state, not keys and values"
    if method == "prefix tuning" and name in CLASSIFIER_VARIANTS:
        return ValueError, "Model does not support past key values"
    if method == "prefix tuning" and name == "pooled-distilbert":
        return ValueError, "DistilBertModel reads none"
    return None


def logits_of(model: Any, batch: dict[str, Tensor]) -> Tensor:
    model.eval()
    with torch.no_grad():
        return model(**batch).logits


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@pytest.mark.parametrize(("name", "method"), CASES)
def test_an_adapter_is_trained_saved_loaded_and_merged(name: str, method: str, tmp_path: Path) -> None:
    why = reason(name, method)
    if why is not None:
        with refused(*why):
            model = adapted(name, method)
            model(**batch_for(model.get_base_model()))
        return
    model = adapted(name, method)
    batch = batch_for(model.get_base_model())
    if "decoder_input_ids" in batch:  # as a Trainer's collator gives them, with labels alone
        alone = {part: tensor for part, tensor in batch.items() if part != "decoder_input_ids"}
        assert model(**alone).loss.isfinite()
    before, unadapted = weights(model), model_of(name).state_dict()
    optimizer = torch.optim.Adam([part for part in model.parameters() if part.requires_grad], lr=0.05)
    for _ in range(3):
        model(**batch).loss.backward()
        optimizer.step()
    trained = {part: tensor for part, tensor in model.named_parameters() if tensor.requires_grad}
    assert all(tensor.grad is not None and tensor.grad.abs().sum() > 0 for tensor in trained.values())
    moved = {part for part, tensor in model.named_parameters() if not torch.equal(tensor, before[part])}
    assert moved == trained.keys()

    model.save_pretrained(tmp_path)
    del batch["labels"]
    expected = logits_of(model, batch)
    assert not torch.allclose(expected[:, -1], logits_of(model_of(name), batch)[:, -1], atol=1e-4)
    loaded = PeftModel.from_pretrained(model_of(name), tmp_path).double()
    torch.testing.assert_close(logits_of(loaded, batch), expected, rtol=1e-6, atol=1e-6)  # files are float32
    if hasattr(model, "merge_and_unload"):
        merged = model.merge_and_unload()
        assert merged.state_dict().keys() == unadapted.keys()
        torch.testing.assert_close(logits_of(merged, batch), expected, rtol=1e-10, atol=1e-10)


GENERATING = [
    (name, method)
    for name in NAMES
    for method in ("lora", "prompt tuning", "prefix tuning")
    if name in GENERATING_HEADS and reason(name, method) is None
]


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@pytest.mark.parametrize(("name", "method"), GENERATING)
def test_generated_words_have_the_scores_of_forward(name: str, method: str) -> None:
    model = adapted(name, method).eval()
    source = batch_for(model.get_base_model(), with_labels=False)
    source = {key: source[key][:2] for key in ("input_ids", "attention_mask")}
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    with torch.no_grad():
        for part in model.parameters():
            if part.requires_grad:  # far from where an adapter starts
                part.add_(torch.randn_like(part))
        for num_beams in (1, 2):
            found = model.generate(
                **source, **options, num_beams=num_beams, output_scores=True, return_dict_in_generate=True
            )
            words = found.sequences[:, -4:]
            text = {"input_ids": found.sequences[:, :-1]}
            if model.config.is_encoder_decoder:
                text = source | {"decoder_input_ids": found.sequences[:, :-1]}
            else:
                text["attention_mask"] = nn.functional.pad(source["attention_mask"], (0, 3), value=1)
            scores = model(**text).logits[:, -4:].log_softmax(dim=-1)  # (B, 4, V)
            if num_beams == 1:
                scores[..., model.config.eos_token_id] = -torch.inf  # by min_new_tokens
                assert torch.equal(scores.argmax(dim=-1), words)
            else:
                expected = scores.gather(2, words.unsqueeze(2)).mean(dim=(1, 2))
                torch.testing.assert_close(found.sequences_scores, expected, check_dtype=False)


@pytest.mark.parametrize("name", ["bahdanau-cho_gru-additive", "single", *POOLED])
@pytest.mark.parametrize("method", [*PROMPTS, "prefix tuning"])
def test_peft_asks_for_the_sizes_of_a_prompt(name: str, method: str) -> None:
    """It reads ``hidden_size`` and the like in ``config.json``; here the embeddings have another width."""
    model = model_of(name)
    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "SEQ_CLS"
    with refused(ValueError, "Please specify `", "` in `peft_config`"):
        get_peft_model(model, METHODS[method](task_type=task))


# The tables of PEFT ---------------------------------------------------------------------------------------------------


def test_the_tables_of_peft_have_the_models_and_nothing_else_of_theirs_changes() -> None:
    for name, entries in ADAPTED_MODULES.items():
        table = getattr(peft.utils.constants, name)
        assert table.items() >= entries.items()
        assert {"bart", "bert", "gpt2"} <= table.keys()


@pytest.mark.parametrize("first", ["attnzoo", "peft"])
def test_the_tables_are_filled_whatever_is_imported_first(first: str) -> None:
    program = f"""
import sys, {first}
import attnzoo
assert {first!r} == "peft" or "peft" not in sys.modules
from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as table
assert table["small_transformer"] == ["query_proj", "value_proj"], table
"""
    subprocess.run([sys.executable, "-c", program], check=True)
