"""Other uses by Transformers and torch: packed texts, masks of pairs, compiling and exporting."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.export import Dim
from transformers import (
    CompileConfig,
    ContinuousBatchingConfig,
    DataCollatorForTokenClassification,
    DataCollatorWithFlattening,
    GenerationConfig,
    pipeline,
)

from attnzoo import SmallTransformerForTokenClassification, search
from tests.factory import (
    CAUSAL,
    EOS,
    GENERATING,
    LETTERS,
    MODELS,
    ONE_STACK,
    SEQ2SEQ,
    TOKENIZER,
    TRANSFORMER_VARIANTS,
    WITH_KEYS,
    inputs,
    letter_tokenizer,
    padded,
    tiny_config,
    tiny_model,
    words,
)

EXACT = {"rtol": 1e-10, "atol": 1e-12}
LEFT = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]]
TEXTS = [words(1, length, seed=length) for length in (5, 3, 7, 1)]
every_transformer = pytest.mark.parametrize(
    "name", [name for name in MODELS if MODELS[name][1] in TRANSFORMER_VARIANTS]
)


# Positions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("variant", ONE_STACK)
def test_texts_packed_in_a_row_do_not_see_each_other(variant: str, attention: str) -> None:
    """With all outputs of the collator, with gradients, and with ``tokens_to_compute``, which would skip tokens."""
    model = tiny_model(variant, attention=attention)
    collator = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)
    batch = collator([{"input_ids": text[0].tolist()} for text in TEXTS])
    apart = torch.cat([model(text).logits[0] for text in TEXTS])
    for skip_logits in (False, True):
        outputs = model(**batch, skip_logits=skip_logits)
        labels = batch["labels"][0]
        if model.config.attention_pattern == "causal":
            labels = torch.cat([labels[1:], torch.tensor([-100])])
        torch.testing.assert_close(outputs.loss, torch.nn.functional.cross_entropy(apart, labels), **EXACT)
    torch.testing.assert_close(model(**batch).logits[0], apart, **EXACT)


@every_transformer
def test_positions_that_are_given_are_those_that_are_counted(name: str) -> None:
    model = tiny_model(name)
    batch = inputs(model.config)
    positions = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
    given: dict[str, Tensor] = {"position_ids": positions}
    if model.config.is_encoder_decoder:
        given["decoder_position_ids"] = torch.arange(4).unsqueeze(0)
    torch.testing.assert_close(model(**batch, **given)[0], model(**batch)[0], **EXACT)
    if model.config.position_embedding != "none":
        for name, values in given.items():
            assert not torch.equal(model(**batch, **(given | {name: values + 3}))[0], model(**batch)[0])


@pytest.mark.parametrize("variant", CAUSAL)
def test_generation_goes_on_from_positions_that_are_given(variant: str) -> None:
    model, prompt = tiny_model(variant, std=1.0), words(2, 4)
    expected = prompt
    for _ in range(5):
        logits = model(expected, position_ids=torch.arange(7, 7 + expected.shape[1]).unsqueeze(0)).logits
        expected = torch.cat([expected, logits[:, -1:].argmax(dim=-1)], dim=1)
    options: dict[str, Any] = {"max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0}
    found = model.generate(prompt, position_ids=torch.arange(7, 11).expand(2, -1), **options)
    assert torch.equal(found, expected)
    with pytest.raises(ValueError, match=r"search\(\) does not support position_ids"):
        model.generate(prompt, position_ids=torch.arange(7, 11).expand(2, -1), custom_generate=search, **options)


@pytest.mark.parametrize("variant", CAUSAL)
def test_padding_on_the_right_of_a_prompt_is_no_text(variant: str) -> None:
    model, prompt = tiny_model(variant), words(1, 6)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    options: dict[str, Any] = {"max_new_tokens": 6, "suppress_tokens": [EOS]}
    for cache in ("dynamic", "static"):
        step = model.generate(prompt, attention_mask=mask, cache_implementation=cache, **options)[0, 6:]
        text = torch.cat([prompt[0, :4], step])  # its first word is made from the padding, as anywhere; then none is
        for at in range(5, len(text)):
            whole = torch.cat([prompt[0], text[4:at]]).unsqueeze(0)
            seen = torch.cat([mask, torch.ones(1, at - 4, dtype=torch.long)], dim=1)
            logits = model(whole, attention_mask=seen).logits[0, -1]
            logits[EOS] = -torch.inf
            assert logits.argmax() == text[at]


# Labels and logits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip_logits", [False, True])
def test_labels_may_be_shifted_already(skip_logits: bool) -> None:
    model, text = tiny_model(CAUSAL[0]), words(2, 5)
    shifted = torch.nn.functional.pad(text[:, 1:], (0, 1), value=-100)
    expected = model(text, labels=text).loss
    for labels in (None, text.flip(1)):  # the shifted ones count, as in every loss of Transformers
        loss = model(text, labels=labels, shift_labels=shifted, skip_logits=skip_logits).loss
        torch.testing.assert_close(loss, expected, **EXACT)


def test_the_logits_of_some_tokens() -> None:
    model, text = tiny_model(CAUSAL[0]), words(2, 5)
    every = model(text).logits
    of_each = torch.tensor([[0, 3], [2, 1]])
    for keep, expected in (
        (2, every[:, -2:]),
        (torch.tensor([0, 4]), every[:, [0, 4]]),
        (of_each, torch.stack([every[row, places] for row, places in enumerate(of_each)])),
        (text > 6, every[text > 6]),
    ):
        torch.testing.assert_close(model(text, logits_to_keep=keep).logits, expected, **EXACT)
    with pytest.raises(ValueError, match=r"logits_to_keep must be at least 0, .* got -1"):
        model(text, logits_to_keep=-1)


# Masks of pairs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("variant", ONE_STACK)
def test_a_mask_of_every_pair(variant: str, attention: str) -> None:
    """Bool or additive, for every row or for all, for every head. Only the mask decides, also about later tokens."""
    model = tiny_model(variant, attention=attention)
    batch = padded([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    expected = model(**batch).logits
    pairs = batch["attention_mask"].bool()[:, None, None].expand(-1, 1, 5, -1)
    if model.config.attention_pattern == "causal":
        pairs = pairs.tril()
    positions = (batch["attention_mask"].cumsum(dim=1) - 1).clamp(min=0)
    additive = [torch.where(pairs, 0.0, low) for low in (-torch.inf, torch.finfo(torch.float32).min)]
    for mask in (pairs, pairs.expand(-1, 2, -1, -1), *additive):
        logits = model(batch["input_ids"], attention_mask=mask, position_ids=positions).logits
        torch.testing.assert_close(logits[0], expected[0], **EXACT)
        torch.testing.assert_close(logits[1, 2:], expected[1, 2:], **EXACT)
        assert logits.isfinite().all()
    both = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    first = words(2, 5)
    other = torch.cat([first[:, :-1], (first[:, -1:] - 2) % 10 + 3], dim=1)
    changes = [model(text, attention_mask=both).logits[:, 0] for text in (first, other)]
    assert (changes[0] - changes[1]).abs().max() > 1e-6


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("variant", CAUSAL)
def test_continuous_batching_generates_what_generate_does(variant: str, attention: str) -> None:
    model = tiny_model(variant, attention=attention, dtype=torch.float32, std=1.0, seed=2, tie_word_embeddings=False)
    options = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0, bos_token_id=1)
    pages = ContinuousBatchingConfig(page_size=4, num_blocks=32, max_batch_tokens=32)
    prompts = [text[0].tolist() for text in TEXTS]
    found = model.generate_batch(prompts, options, continuous_batching_config=pages, warmup=False)
    expected = [model.generate(text, options)[0, text.shape[1] :].tolist() for text in TEXTS]
    assert [output.generated_tokens for output in found.values()] == expected
    assert len(set(map(tuple, expected))) > 1


# Flex attention -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@every_transformer
def test_flex_attention_is_attention(name: str) -> None:
    """Compared with the definition: its kernels are compiled, and on a CPU have no gradients."""
    model, flex = (tiny_model(name, attention=attention) for attention in ("sdpa", "flex_attention"))
    batch = inputs(model.config)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(flex(**batch)[0], model(**batch)[0], **EXACT)
        recorded = flex(**batch, output_attentions=True)
        torch.testing.assert_close(recorded[0], model(**batch)[0], **EXACT)
        if model.can_generate():
            options: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 4}
            assert torch.equal(flex.generate(**padded(LEFT), **options), model.generate(**padded(LEFT), **options))


# Graphs ---------------------------------------------------------------------------------------------------------------


# What torch traces takes ten seconds a model: each stack, order of norms, kind of positions, copying and SSRUs once.
TRACED = [
    "encoder_decoder-pre-sinusoidal-copy",
    "encoder_decoder-post-halves-ssru",
    "causal-pre-learned",
    "bidirectional-pre-none",
    "classifier-causal",
]


def traced(names: list[str], *slow: str) -> Any:
    """The names as parameters, some of them with the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in names]


def example(model: Any, rows: int, length: int, target: int) -> dict[str, Tensor]:
    batch = {"input_ids": words(rows, length), "attention_mask": torch.ones(rows, length, dtype=torch.long)}
    batch["attention_mask"][0, : length // 3] = 0
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = words(rows, target, seed=1)
    return batch


@pytest.mark.parametrize("name", traced(TRACED, "causal-pre-learned", "bidirectional-pre-none"))
def test_an_exported_model_is_the_model_at_every_size(name: str) -> None:
    """A decoder with SSRUs is a loop over the target, whose length is then that of the example."""
    model = tiny_model(name, use_cache=False, num_hidden_layers=1)  # the layers are alike
    rows, length, target = Dim("rows"), Dim("length", max=32), Dim("target", max=32)
    sizes = {"input_ids": {0: rows, 1: length}, "attention_mask": {0: rows, 1: length}}
    is_loop = name in SEQ2SEQ and name not in WITH_KEYS
    sizes["decoder_input_ids"] = {0: rows} if is_loop else {0: rows, 1: target}
    batch = example(model, 3, 5, 4)
    shapes = {name: sizes[name] for name in batch}
    with torch.no_grad():
        exported = torch.export.export(model, (), batch, dynamic_shapes=shapes).module()
        for *size, tokens in ((1, 9, 1), (5, 3, 8), (2, 32, 32)):
            batch = example(model, *size, 4 if is_loop else tokens)
            torch.testing.assert_close(exported(**batch)[0], model(**batch)[0], **EXACT)


@pytest.mark.parametrize("variant", [name for name in TRACED if name in WITH_KEYS])
def test_no_step_with_a_static_cache_is_compiled_again(variant: str) -> None:
    """This holds up to the last place of the cache. A causal model has a second graph for padding."""
    model = tiny_model(variant, num_hidden_layers=1)
    options: dict[str, Any] = {"max_new_tokens": 9, "suppress_tokens": [EOS]}
    torch._dynamo.reset()
    counters.clear()
    compiled = CompileConfig(backend="eager", fullgraph=True, dynamic=False, mode=None)
    compiled._compile_all_devices = True
    for mask in ([[1] * 5] * 4, LEFT):
        expected = model.generate(**padded(mask), **options)
        found = model.generate(**padded(mask), **options, cache_implementation="static", compile_config=compiled)
        assert torch.equal(found, expected)
    assert counters["stats"]["unique_graphs"] == (2 if variant in CAUSAL else 1)
    assert not counters["graph_break"]


@pytest.mark.parametrize("variant", traced([name for name in TRACED if name in GENERATING], "causal-pre-learned"))
def test_a_training_step_is_one_graph(variant: str) -> None:
    model = tiny_model(variant, num_hidden_layers=1).train()
    batch = padded(LEFT)
    batch["labels"] = batch["input_ids"]
    expected = model(**batch).loss
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    loss = compiled(**batch).loss
    torch.testing.assert_close(loss, expected, **EXACT)
    loss.backward()


# A source alone -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SEQ2SEQ)
def test_a_source_without_a_target_may_be_states_or_padded(variant: str) -> None:
    model, source = tiny_model(variant), words(2, 5)
    expected = model(source).logits
    states = model.get_encoder()(source).last_hidden_state
    for outputs in ((states,), [states]):
        torch.testing.assert_close(model(source, encoder_outputs=outputs).logits, expected, **EXACT)
    with pytest.raises(TypeError, match=r"encoder_outputs must be a tuple .* give \(tensor,\)"):
        model(source, encoder_outputs=states)
    batch = {"input_ids": torch.cat([words(2, 2, seed=7), source], dim=1)}
    batch["attention_mask"] = torch.tensor([[0, 0, 1, 1, 1, 1, 1]] * 2)
    torch.testing.assert_close(model(**batch).logits[:, 3:], expected[:, 1:], **EXACT)
    torch.testing.assert_close(model(**batch).logits[:, 0], expected[:, 0], **EXACT)


def test_features_of_every_pattern() -> None:
    for variant in TRANSFORMER_VARIANTS:
        config = tiny_config(variant, vocab_size=len(TOKENIZER))
        model = tiny_model(variant, dtype=torch.float32, vocab_size=config.vocab_size).base_model
        features = pipeline("feature-extraction", model=model, tokenizer=letter_tokenizer())("abc")
        assert torch.tensor(features).shape == (1, 4, 8)


# Tags -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["bidirectional-post-learned", "causal-pre-learned"])
def test_the_pipeline_of_tags(variant: str, tmp_path: Any) -> None:
    names = dict(enumerate(["O", "VOWEL", "CONSONANT"]))
    tags = {letter: 1 + (letter not in "aeiou") for letter in LETTERS}
    torch.manual_seed(0)
    config = tiny_config(variant, vocab_size=len(TOKENIZER), hidden_size=16, id2label=names)
    model = SmallTransformerForTokenClassification(config).train()
    rows = [{"input_ids": ids, "labels": [*(tags[letter] for letter in text), 0]} for text, ids in encoded()]
    batch = DataCollatorForTokenClassification(TOKENIZER)(rows)
    assert (batch["labels"] == -100).any()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.05
    model.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    found = pipeline("token-classification", str(tmp_path), ignore_labels=["O"])("bad")
    assert [word["entity"] for word in found] == ["CONSONANT", "VOWEL", "CONSONANT"]


def encoded() -> list[tuple[str, list[int]]]:
    texts = ["".join(random.Random(seed).sample(LETTERS, 5 + seed % 9)) for seed in range(40)]
    return [(text, TOKENIZER(text)["input_ids"]) for text in texts]
