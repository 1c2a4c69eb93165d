"""Calls with every option of ``generate()``, for ``test_generate_options.py``.

Dimensions: R rows of the batch, V words of the vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from tokenizers import processors
from torch import Tensor
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    CompileConfig,
    ContinuousBatchingConfig,
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    SynthIDTextWatermarkingConfig,
    WatermarkingConfig,
)
from transformers.generation import (
    BaseStreamer,
    LogitsProcessorList,
    MaxLengthCriteria,
    NoBadWordsLogitsProcessor,
    StoppingCriteriaList,
)

from tests.factory import BOS, EOS, PAD, RNN_VARIANTS, letter_tokenizer, make_model

TOKENIZER = letter_tokenizer()
TOKENIZER.add_tokens(["ab"])
TOKENIZER.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")  # a prompt goes on
V = len(TOKENIZER)
# Two sources, or prompts, of letters; both end in "a", which "ab" heals.
SOURCE = torch.tensor(TOKENIZER(["hgfca", "mnopa"])["input_ids"])
STEPS = 4
BASE: dict[str, Any] = {"max_new_tokens": STEPS, "suppress_tokens": [EOS]}  # without an end all lengths are known
LETTERS = {*range(5, 31)}
SOME = {*range(5, 18)}

Options = dict[str, Any] | Callable[[Any], dict[str, Any]]


@dataclass
class Case:
    """One way to call ``generate()``.

    Attributes:
        options: its arguments, or a function that makes them for a model
        holds: a property of the new tokens of every row, for any model
        rows: R; assisted decoding takes one row
        may_end: whether rows may end at different lengths
        refused: the models that must raise an error, and a part of the message
        ignored: the models without a use for it, which must give the result without it
    """

    options: Options
    holds: Callable[[list[int]], bool] = lambda new: True
    rows: int = 2
    may_end: bool = False
    refused: tuple[Callable[[Any], bool], str] | None = None
    ignored: Callable[[Any], bool] = lambda model: False

    def arguments(self, model: Any) -> dict[str, Any]:
        """All arguments of ``generate()``."""
        options = self.options(model) if callable(self.options) else self.options
        source = {"input_ids": SOURCE[: self.rows], "attention_mask": torch.ones_like(SOURCE[: self.rows])}
        if {"inputs", "inputs_embeds", "encoder_outputs"} & options.keys():
            del source["input_ids"]
        return source | BASE | options

    def is_refused(self, model: Any) -> bool:
        return self.refused is not None and self.refused[0](model)


class Recorder(BaseStreamer):
    """A streamer that records its tokens."""

    def __init__(self) -> None:
        self.tokens: list[Tensor] = []
        self.has_ended = False

    def put(self, value: Tensor) -> None:
        self.tokens.append(value.flatten())

    def end(self) -> None:
        self.has_ended = True


def bart(**sizes: Any) -> Any:
    torch.manual_seed(0)
    config = BartConfig(
        **{"vocab_size": V, "d_model": 8, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2}
        | {"decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 32}
        | {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
        | {"forced_eos_token_id": None, "init_std": 1.0, "attn_implementation": "eager"}
        | sizes
    )
    model = BartForConditionalGeneration(config).eval()
    model.generation_config.forced_eos_token_id = None
    return model


def gpt2(**sizes: Any) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(
        **{"vocab_size": V, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 32, "initializer_range": 1.0}
        | {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "attn_implementation": "eager"}
        | sizes
    )
    return GPT2LMHeadModel(config).eval()


MAKERS: dict[str, Callable[..., Any]] = {"bart": bart, "gpt2": gpt2}


def named_model(name: str, **sizes: Any) -> Any:
    """A model of ours, or one of the two that it is compared with."""
    model = MAKERS[name](**sizes) if name in MAKERS else make_model(name, **({"vocab_size": V} | sizes))
    model.made_as = name
    return model


@cache
def assistant(model: Any, **sizes: Any) -> Any:
    return named_model(model.made_as, **sizes)


def is_recurrent(model: Any) -> bool:
    return model.made_as in RNN_VARIANTS


def has_encoder(model: Any) -> bool:
    return model.config.is_encoder_decoder


def copies(model: Any) -> bool:
    return getattr(model.config, "copy", False)


def any_model(model: Any) -> bool:
    return True


def own_cache(model: Any) -> Any:
    """An empty cache of the kind that the model makes."""
    if is_recurrent(model):
        from attnzoo.recurrent_cache import RecurrentDecoderCache

        return RecurrentDecoderCache()
    return EncoderDecoderCache(DynamicCache(), DynamicCache()) if has_encoder(model) else DynamicCache()


def prompt(model: Any) -> dict[str, Any]:
    """The beginning of a target; a causal model always has a prompt."""
    return {"decoder_input_ids": torch.tensor([[BOS, 7], [BOS, 9]])} if has_encoder(model) else {}


STATEFUL = is_recurrent, "assisted generation is not supported with stateful models"
NO_ENCODER = has_encoder, "is for models without an encoder"
OUTPUTS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states", "return_dict_in_generate")
ALL_OUTPUTS = dict.fromkeys(OUTPUTS, True)
SAMPLE: dict[str, Any] = {"do_sample": True}
ONE_OF_EACH = WatermarkingConfig(greenlist_ratio=0.5, bias=50.0, seeding_scheme="lefthash")
KEYS = [11, 23, 5, 77, 9]

CASES: dict[str, Case] = {
    "nothing": Case({}, lambda new: EOS not in new and len(new) == STEPS),
    # Lengths
    "max_length": Case(
        lambda m: {"max_length": 3 if has_encoder(m) else 7, "max_new_tokens": None}, lambda n: len(n) == 2
    ),
    "max_new_tokens": Case({"max_new_tokens": 1}, lambda new: len(new) == 1),
    "min_length": Case(
        lambda m: {"min_length": 4 if has_encoder(m) else 8, "suppress_tokens": None},
        lambda new: EOS not in new[:3],
        may_end=True,
    ),
    "min_new_tokens": Case({"min_new_tokens": 3, "suppress_tokens": None}, lambda n: EOS not in n[:3], may_end=True),
    "min_new_tokens, beams": Case(
        {"min_new_tokens": 3, "suppress_tokens": None, "num_beams": 3}, lambda new: EOS not in new[:3], may_end=True
    ),
    "max_time": Case({"max_time": 1e-9}, lambda new: len(new) == 1),
    "stop_strings": Case(
        {"stop_strings": list("abcdefghijkl"), "tokenizer": TOKENIZER},
        lambda new: not {*new[:-1]} & {*range(5, 17)},
        may_end=True,
    ),
    "stop_strings, one": Case(
        {"stop_strings": "a", "tokenizer": TOKENIZER, "sequence_bias": {(5,): 1e3}}, lambda new: new == [5]
    ),
    "stop_strings, beams": Case(
        {"stop_strings": ["a"], "tokenizer": TOKENIZER, "num_beams": 3, "sequence_bias": {(5,): 1e3}},
        lambda new: 5 not in new[:-1],
        may_end=True,
    ),
    "stop_strings, no tokenizer": Case({"stop_strings": ["a"]}),
    "early_stopping": Case({"early_stopping": True, "num_beams": 2}),
    "early_stopping, never": Case({"early_stopping": "never", "num_beams": 2}),
    "length_penalty": Case({"length_penalty": -1.0, "num_beams": 2, "suppress_tokens": None}, may_end=True),
    # The kind of search
    "do_sample": Case(SAMPLE),
    "do_sample, several": Case({**SAMPLE, "num_return_sequences": 3}),
    "num_beams": Case({"num_beams": 3}),
    "num_beams, several": Case({"num_beams": 3, "num_return_sequences": 3}),
    "num_beams, sampled": Case({"num_beams": 3, **SAMPLE, "num_return_sequences": 2}),
    "num_beams, 0": Case({"num_beams": 0}, refused=(any_model, "num_beams must be at least 1, got 0")),
    "num_return_sequences, greedy": Case({"num_return_sequences": 2}),
    "num_return_sequences, too many": Case({"num_return_sequences": 4, "num_beams": 2}),
    "num_beam_groups": Case({"num_beam_groups": 2, "num_beams": 4, "diversity_penalty": 0.5}),
    "constraints": Case({"constraints": [7], "num_beams": 2}),
    "force_words_ids": Case({"force_words_ids": [[7]], "num_beams": 2}),
    "penalty_alpha": Case({"penalty_alpha": 0.6, "top_k": 4}),
    "dola_layers": Case({"dola_layers": "low"}),
    "trust_remote_code": Case({"trust_remote_code": False}),
    "custom_generate": Case({"custom_generate": lambda model, input_ids, **kwargs: input_ids}, lambda new: new == []),
    "custom_generate, no repository": Case({"custom_generate": "/no/such/folder"}),
    "low_memory": Case({"low_memory": True}),
    "low_memory, beams": Case({"low_memory": True, "num_beams": 2}),
    "synced_gpus": Case({"synced_gpus": True}),
    "synced_gpus, False": Case({"synced_gpus": False}),
    # Scores of words
    "temperature": Case({**SAMPLE, "temperature": 1e-4}),
    "temperature, 0": Case({**SAMPLE, "temperature": 0.0}),
    "top_k": Case({**SAMPLE, "top_k": 1}),
    "top_p": Case({**SAMPLE, "top_p": 0.5}),
    "top_h": Case({**SAMPLE, "top_h": 0.5}),
    "min_p": Case({**SAMPLE, "min_p": 0.5}),
    "typical_p": Case({**SAMPLE, "typical_p": 0.5}),
    "epsilon_cutoff": Case({**SAMPLE, "epsilon_cutoff": 3e-4}),
    "eta_cutoff": Case({**SAMPLE, "eta_cutoff": 3e-4}),
    "repetition_penalty": Case({"repetition_penalty": 1.5}),
    "encoder_repetition_penalty": Case({"encoder_repetition_penalty": 1.5}),
    "no_repeat_ngram_size": Case({"no_repeat_ngram_size": 1}, lambda new: len({*new}) == len(new)),
    "encoder_no_repeat_ngram_size": Case(
        lambda m: {"encoder_no_repeat_ngram_size": 1},
        lambda new: 5 not in new,  # "a" is in every source
    ),
    "bad_words_ids": Case({"bad_words_ids": [[word] for word in SOME]}, lambda new: not {*new} & SOME),
    "renormalize_logits": Case({"renormalize_logits": True, "num_beams": 2}),
    "forced_bos_token_id": Case(
        lambda m: {"forced_bos_token_id": 7, "max_new_tokens": STEPS}, lambda new: len(new) == STEPS
    ),
    "forced_eos_token_id": Case({"forced_eos_token_id": 11}, lambda new: new[-1] == 11),
    "remove_invalid_values": Case({"remove_invalid_values": True}),
    "exponential_decay_length_penalty": Case(
        {"exponential_decay_length_penalty": (1, 1e9), "suppress_tokens": None}, lambda new: len(new) <= 3, may_end=True
    ),
    "suppress_tokens": Case({"suppress_tokens": [EOS, *SOME]}, lambda new: not {*new} & SOME),
    "begin_suppress_tokens": Case({"begin_suppress_tokens": [*SOME]}, lambda new: new[0] not in SOME),
    "sequence_bias": Case({"sequence_bias": {(9,): 1e3}}, lambda new: {*new} == {9}),
    "diversity_penalty": Case({"diversity_penalty": 0.5}),
    "watermarking_config": Case({"watermarking_config": ONE_OF_EACH}),
    "watermarking_config, synthid": Case(
        {**SAMPLE, "watermarking_config": SynthIDTextWatermarkingConfig(ngram_len=3, keys=KEYS)}
    ),
    "guidance_scale": Case({"guidance_scale": 1.5}, refused=NO_ENCODER),
    "guidance_scale, 1": Case({"guidance_scale": 1}),
    "negative_prompt_ids": Case(
        {
            "guidance_scale": 1.5,
            "negative_prompt_ids": SOURCE,
            "negative_prompt_attention_mask": torch.ones_like(SOURCE),
        },
        refused=NO_ENCODER,
    ),
    "logits_processor": Case(
        {"logits_processor": LogitsProcessorList([NoBadWordsLogitsProcessor([[word] for word in SOME])])},
        lambda new: not {*new} & SOME,
    ),
    "prefix_allowed_tokens_fn": Case({"prefix_allowed_tokens_fn": lambda row, ids: [7]}, lambda new: {*new} == {7}),
    "stopping_criteria": Case(
        lambda m: {"stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(3 if has_encoder(m) else 7)])},
        lambda new: len(new) == 2,
    ),
    # The tokenizer
    "tokenizer": Case({"tokenizer": TOKENIZER}),
    "token_healing": Case({"token_healing": True, "tokenizer": TOKENIZER}, refused=NO_ENCODER),
    "token_healing, no tokenizer": Case({"token_healing": True}),
    "streamer": Case(lambda m: {"streamer": Recorder()}),
    "streamer, beams": Case(lambda m: {"streamer": Recorder(), "num_beams": 2}),
    # Assistants
    "assistant_model": Case(lambda m: {"assistant_model": assistant(m)}, rows=1, refused=STATEFUL),
    "assistant_model, two rows": Case(lambda m: {"assistant_model": assistant(m)}),
    "assistant_model, sampled": Case(lambda m: {"assistant_model": assistant(m), **SAMPLE}, rows=1, refused=STATEFUL),
    "assistant_model, beams": Case(lambda m: {"assistant_model": assistant(m), "num_beams": 2}),
    "num_assistant_tokens": Case(
        lambda m: (
            {"assistant_model": assistant(m), "num_assistant_tokens": 2}
            | {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.1}
        ),
        rows=1,
        refused=STATEFUL,
    ),
    "assistant_ensemble_weight": Case(
        lambda m: {"assistant_model": assistant(m), "assistant_ensemble_weight": 0.5}, rows=1, refused=STATEFUL
    ),
    "assistant_tokenizer": Case(
        lambda m: (
            {"assistant_model": assistant(m, vocab_size=V + 3), "assistant_lookbehind": 4, "target_lookbehind": 4}
            | {"tokenizer": TOKENIZER, "assistant_tokenizer": TOKENIZER}
        ),
        rows=1,
        refused=STATEFUL,
    ),
    "assistant_tokenizer, alone": Case({"assistant_tokenizer": TOKENIZER}),
    "prompt_lookup_num_tokens": Case({"prompt_lookup_num_tokens": 2}, rows=1, refused=STATEFUL),
    "max_matching_ngram_size": Case(
        {"prompt_lookup_num_tokens": 2, "max_matching_ngram_size": 1}, rows=1, refused=STATEFUL
    ),
    "assistant_early_exit": Case({"assistant_early_exit": 1}, rows=1, refused=(any_model, "assistant_early_exit=1 is")),
    "use_mtp": Case({"use_mtp": True}, rows=1),
    "speculation_type": Case({"speculation_type": "dflash"}),
    # The cache
    "use_cache": Case({"use_cache": False}),
    "use_cache, None": Case({"use_cache": None}),
    "cache_implementation, dynamic": Case({"cache_implementation": "dynamic"}),
    "cache_implementation, static": Case({"cache_implementation": "static", "max_cache_len": 24}),
    "cache_implementation, quantized": Case(
        {"cache_implementation": "quantized", "cache_config": {"backend": "quanto"}}, ignored=is_recurrent
    ),
    "cache_implementation, paged": Case({"cache_implementation": "paged"}, refused=NO_ENCODER),
    "cache_implementation, unknown": Case({"cache_implementation": "nothing"}),
    "past_key_values": Case(lambda m: {"past_key_values": own_cache(m)}),
    "past_key_values, beams": Case(lambda m: {"past_key_values": own_cache(m), "num_beams": 2}),
    "past_key_values, another": Case(
        lambda m: {"past_key_values": DynamicCache()}, refused=(has_encoder, "past_key_values must be")
    ),
    "past_key_values, a tuple": Case({"past_key_values": ((SOURCE,),)}),
    "prefill_chunk_size": Case({"prefill_chunk_size": 2}, refused=NO_ENCODER),
    "compile_config": Case({"compile_config": CompileConfig()}),
    "disable_compile": Case({"disable_compile": True}),
    "continuous_batching_config": Case({"continuous_batching_config": ContinuousBatchingConfig()}),
    # Outputs
    "outputs": Case(ALL_OUTPUTS),
    "outputs, sampled": Case({**ALL_OUTPUTS, **SAMPLE, "num_return_sequences": 2}),
    "outputs, beams": Case({**ALL_OUTPUTS, "num_beams": 3, "num_return_sequences": 2}),
    "outputs, assisted": Case({**ALL_OUTPUTS, "prompt_lookup_num_tokens": 2}, rows=1, refused=STATEFUL),
    "return_dict_in_generate": Case({"return_dict_in_generate": True}),
    **{f"{name}, alone": Case({name: True}) for name in OUTPUTS[:4]},
    # Special tokens
    "eos_token_id": Case(
        {"eos_token_id": [*SOME], "suppress_tokens": None}, lambda new: not {*new[:-1]} & SOME, may_end=True
    ),
    "eos_token_id, None": Case({"eos_token_id": None, "suppress_tokens": None}, lambda new: len(new) == STEPS),
    "pad_token_id": Case({"pad_token_id": 3, "suppress_tokens": None}, may_end=True),
    "bos_token_id": Case({"bos_token_id": 5}),
    "decoder_start_token_id": Case({"decoder_start_token_id": 7}),
    "decoder_start_token_id, several": Case({"decoder_start_token_id": [7, 8]}),
    # Inputs
    "inputs": Case({"inputs": SOURCE}),
    "inputs_embeds": Case(
        lambda m: {"inputs_embeds": m.get_input_embeddings()(SOURCE)},
        refused=(copies, "copy=True copies tokens of the source and needs them"),
    ),
    "encoder_outputs": Case(lambda m: {"encoder_outputs": m.get_encoder()(SOURCE)} if has_encoder(m) else {}),
    "encoder_outputs, a tuple": Case(
        lambda m: {"encoder_outputs": m.get_encoder()(SOURCE).to_tuple()} if has_encoder(m) else {}
    ),
    "decoder_input_ids": Case(prompt),
    "decoder_input_ids, beams": Case(lambda m: prompt(m) | {"num_beams": 2}),
    "decoder_input_ids, sampled": Case(lambda m: prompt(m) | {**SAMPLE, "num_return_sequences": 2}),
    "decoder_inputs_embeds": Case(lambda m: {"decoder_inputs_embeds": m.get_input_embeddings()(SOURCE)}),
    "attention_mask, 4D": Case({"attention_mask": torch.ones(2, 1, 5, 5)}),
    "generation_config": Case(
        lambda m: (
            {"generation_config": GenerationConfig(num_beams=2, max_new_tokens=2, suppress_tokens=[EOS])}
            | {"max_new_tokens": 2}
        ),
        lambda new: len(new) == 2,
    ),
    "unknown": Case({"top_kk": 3}),
}
