"""Tiny models of every family, and the batches, labels, tokenizer, folders and Trainers that go with them.

A *variant* is a named config. A *head* is a model class with a variant that fits it; every variant names its usual
head. A *kind* is a head under the name of what it is for. The variants of a family differ in code path.
All weights are large, so that scores differ, beams change places and a lost state shows in the first digits.
"""

import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
)

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    AttentionalRNNModel,
    SelfAttentiveConfig,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
    SmallTransformerModel,
)

DEVICE = torch.device("cpu")  # of tiny models; pytest --device sets it
PAD, BOS, EOS = 0, 1, 2
FIRST_WORD = 3  # ids from here on are ordinary tokens
VOCAB_SIZE = 13

# Configs --------------------------------------------------------------------------------------------------------------

# decoder_hidden_size is 2 * encoder_hidden_size: the dot score needs it, and Luong's states then need no bridge.
RNN_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 6,
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 8,
    "attention_size": 5,
    "readout_size": 7,
    "window_size": 2,
    "max_source_positions": 6,
}
PREDICTIVE = {"wiring": "luong", "cell": "lstm", "score": "general", "window": "predictive", "input_feeding": True}
ONE_DIRECTION = {"bidirectional": False, "reverse_source": True}
TWO_LAYERS = {"encoder_layers": 2, "decoder_layers": 2}
RNN_VARIANTS: dict[str, dict[str, Any]] = {
    "bahdanau-cho_gru-additive": {"wiring": "bahdanau", "cell": "cho_gru", "score": "additive"},
    "bahdanau-lstm-additive-2-layers": {"wiring": "bahdanau", "cell": "lstm", "score": "additive", **TWO_LAYERS},
    "bahdanau-gru-general-monotonic": {"wiring": "bahdanau", "cell": "gru", "score": "general", "window": "monotonic"},
    "luong-lstm-general-feeding": {"wiring": "luong", "cell": "lstm", "score": "general", "input_feeding": True},
    "luong-gru-concat": {"wiring": "luong", "cell": "gru", "score": "concat", "decoder_hidden_size": 6},
    "luong-lstm-dot": {"wiring": "luong", "cell": "lstm", "score": "dot"},
    "luong-lstm-general-predictive-feeding": PREDICTIVE,
    "luong-gru-location-monotonic": {"wiring": "luong", "cell": "gru", "score": "location", "window": "monotonic"},
    "cho-cho_gru-forward": {"wiring": "cho", "cell": "cho_gru", "bidirectional": False},
    # As wide and as deep as its encoder: the decoder's start is a copy.
    "sutskever-lstm-2-layers-reversed": {"wiring": "sutskever", "cell": "lstm", "encoder_hidden_size": 8}
    | {"readout_size": 8, **ONE_DIRECTION, **TWO_LAYERS},
    "bahdanau-rnn-additive-reversed": {"wiring": "bahdanau", "cell": "rnn", "score": "additive", **ONE_DIRECTION},
    "bahdanau-gru-additive-copy-coverage": {"wiring": "bahdanau", "cell": "gru", "score": "additive"}
    | {"copy": True, "coverage": True},
    "luong-lstm-concat-copy-coverage": {"wiring": "luong", "cell": "lstm", "score": "concat"}
    | {"copy": True, "coverage": True},
    "luong-lstm-general-predictive-feeding-2-layers-reversed": {**PREDICTIVE, **ONE_DIRECTION, **TWO_LAYERS}
    | {"forget_gate_bias": 1.0},
}
ATTENTION_VARIANTS = [name for name in RNN_VARIANTS if name.startswith(("bahdanau", "luong"))]
# Their steps read more than the token and the recurrent state: the attentional vector, or Cho's c.
FED_VARIANTS = [name for name in RNN_VARIANTS if "feeding" in name or name.startswith("cho")]

CLASSIFIER_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 6,
    "hidden_size": 4,
    "attention_hidden_size": 5,
    "num_hops": 3,
    "classifier_size": 7,
    "num_labels": 3,
    "eos_token_id": EOS,
    "classifier_dropout": 0.0,
}
CLASSIFIER_VARIANTS: dict[str, dict[str, Any]] = {
    "single": {},
    "pair": {"sentence_pair": True, "gate_size": 4},
    "pair-compared": {"sentence_pair": True, "gate_size": 4, "compare_hops": True},
    "single-gru-2-layers": {"cell": "gru", "num_hidden_layers": 2},
    "pair-cho_gru-one-hop": {"sentence_pair": True, "cell": "cho_gru", "num_hops": 1, "gate_size": 5},
}

TRANSFORMER_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 32,
    "dropout": 0.0,
}
LEARNED = {"activation": "gelu", "position_embedding": "learned", "attention_bias": True}
# Firefox's translation models, with every field that only they have.
MARIAN = {"decoder_mixer": "ssru", "num_decoder_layers": 1, "position_embedding": "sinusoidal_halves"}
MARIAN |= {"attention_bias": True, "output_bias": True, "zero_start": True}
TRANSFORMER_VARIANTS: dict[str, dict[str, Any]] = {
    "encoder_decoder-post-sinusoidal": {"attention_pattern": "encoder_decoder"},
    "encoder_decoder-pre-learned": {"attention_pattern": "encoder_decoder", "norm": "pre", **LEARNED}
    | {"tie_word_embeddings": False},
    "encoder_decoder-pre-sinusoidal-copy": {"attention_pattern": "encoder_decoder", "norm": "pre", "copy": True},
    "encoder_decoder-post-halves-ssru": {"attention_pattern": "encoder_decoder", **MARIAN},
    "bidirectional-post-learned": {"attention_pattern": "bidirectional", **LEARNED},
    "bidirectional-pre-none": {"attention_pattern": "bidirectional", "norm": "pre", "position_embedding": "none"}
    | {"scale_scores": False, "tie_word_embeddings": False},
    "causal-pre-learned": {"attention_pattern": "causal", "norm": "pre", **LEARNED},
    "causal-post-sinusoidal": {"attention_pattern": "causal", "tie_word_embeddings": False},
}
GENERATING = [name for name in TRANSFORMER_VARIANTS if not name.startswith("bidirectional")]
WITH_KEYS = [name for name in GENERATING if "ssru" not in name]  # their decoder attends to itself
CAUSAL = [name for name in TRANSFORMER_VARIANTS if name.startswith("causal")]
SEQ2SEQ = [name for name in TRANSFORMER_VARIANTS if name.startswith("encoder_decoder")]
ONE_STACK = [name for name in TRANSFORMER_VARIANTS if not name.startswith("encoder_decoder")]

# The config, the sizes, the variants, the model without a head and the standard deviation of the weights.
FAMILIES: list[tuple[Any, dict[str, Any], dict[str, dict[str, Any]], type[PreTrainedModel], float]] = [
    (AttentionalRNNConfig, RNN_SIZES, RNN_VARIANTS, AttentionalRNNModel, 0.7),
    (SelfAttentiveConfig, CLASSIFIER_SIZES, CLASSIFIER_VARIANTS, SelfAttentiveModel, 0.7),
    (SmallTransformerConfig, TRANSFORMER_SIZES, TRANSFORMER_VARIANTS, SmallTransformerModel, 0.5),
]
LANGUAGE_MODELS: dict[str, type[PreTrainedModel]] = {
    "encoder_decoder": SmallTransformerForConditionalGeneration,
    "bidirectional": SmallTransformerForMaskedLM,
    "causal": SmallTransformerForCausalLM,
}

# Heads and kinds ------------------------------------------------------------------------------------------------------

# Every model class with a head, with a variant for each pattern that it is for.
HEADS: dict[str, tuple[type[PreTrainedModel], str]] = {
    **{name: (AttentionalRNNForConditionalGeneration, name) for name in RNN_VARIANTS},
    **{name: (SelfAttentiveForSequenceClassification, name) for name in CLASSIFIER_VARIANTS},
    **{name: (LANGUAGE_MODELS[name.split("-")[0]], name) for name in TRANSFORMER_VARIANTS},
    "classifier-bidirectional": (SmallTransformerForSequenceClassification, "bidirectional-post-learned"),
    "classifier-causal": (SmallTransformerForSequenceClassification, "causal-pre-learned"),
    "tagger-bidirectional": (SmallTransformerForTokenClassification, "bidirectional-pre-none"),
    "tagger-causal": (SmallTransformerForTokenClassification, "causal-post-sinusoidal"),
}
TRANSFORMER_HEADS = [name for name, (_, variant) in HEADS.items() if variant in TRANSFORMER_VARIANTS]
# Models without a head, of every family and pattern.
BASES: dict[str, tuple[type[PreTrainedModel], str]] = {
    f"base-{variant}": (base_class, variant)
    for _, _, variants, base_class, _ in FAMILIES
    for variant in variants
    if variant
    in (
        "bahdanau-cho_gru-additive",
        "cho-cho_gru-forward",
        "luong-lstm-general-predictive-feeding-2-layers-reversed",
        "single",
        "pair",
        "encoder_decoder-post-sinusoidal",
        "bidirectional-post-learned",
        "causal-pre-learned",
    )
}
MODELS = HEADS | BASES
KINDS: dict[str, str] = {
    "attentional-rnn": "bahdanau-cho_gru-additive",
    "attentional-rnn-luong": "luong-lstm-general-predictive-feeding",
    "self-attentive": "single",
    "self-attentive-pair": "pair",
    "transformer-encoder-decoder": "encoder_decoder-post-sinusoidal",
    "transformer-causal": "causal-pre-learned",
    "transformer-masked": "bidirectional-post-learned",
    "transformer-classifier": "classifier-bidirectional",
    "transformer-causal-classifier": "classifier-causal",
    "transformer-tagger": "tagger-bidirectional",
}

AUTO_CLASSES: dict[str, Any] = {
    "ForConditionalGeneration": AutoModelForSeq2SeqLM,
    "ForCausalLM": AutoModelForCausalLM,
    "ForMaskedLM": AutoModelForMaskedLM,
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForTokenClassification": AutoModelForTokenClassification,
    "Model": AutoModel,
}

# Every model, and those whose backend of attention can be chosen with both.
BACKENDS = [
    (name, attention)
    for name, (model_class, _) in MODELS.items()
    for attention in (("eager", "sdpa") if "Transformer" in model_class.__name__ else (None,))
]
SEQ2SEQ_HEADS = [*RNN_VARIANTS, *SEQ2SEQ]
COPYING_HEADS = [name for name in SEQ2SEQ_HEADS if "-copy" in name]  # they need the tokens of the source
GENERATING_HEADS = [*RNN_VARIANTS, *GENERATING]

every_model = pytest.mark.parametrize("name", MODELS)
every_head = pytest.mark.parametrize("name", HEADS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def auto_class_of(name: str) -> Any:
    """The Auto class that loads a head, a base or a kind."""
    model_class, _ = MODELS[KINDS.get(name, name)]
    return next(auto for end, auto in AUTO_CLASSES.items() if model_class.__name__.endswith(end))


def family_of(variant: str) -> tuple[Any, dict[str, Any], dict[str, dict[str, Any]], type[PreTrainedModel], float]:
    return next(family for family in FAMILIES if variant in family[2])


def tiny_config(variant: str, **overrides: Any) -> Any:
    config_class, sizes, variants, *_ = family_of(variant)
    return config_class(**(sizes | variants[variant] | overrides))


def tiny_model(
    name: str,
    model_class: type[PreTrainedModel] | None = None,
    seed: int = 0,
    std: float | None = None,
    dtype: torch.dtype = torch.float64,
    attention: str | None = None,
    **overrides: Any,
) -> Any:
    """A model in eval mode, every weight from N(0, std^2): of a head, a base, a kind, or a variant with a class."""
    head_class, variant = MODELS[KINDS.get(name, name)]
    config, model_class = tiny_config(variant, **overrides), model_class or head_class
    options = {} if attention is None else {"attn_implementation": attention}
    model = model_class._from_config(config, **options) if options else model_class(config)
    generator = torch.Generator().manual_seed(seed)
    std = family_of(variant)[-1] if std is None else std
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=generator)
        for module in model.modules():
            if (start := getattr(module, "padding_idx", None)) is not None:  # the row that zero_start says is 0
                module.weight[start] = 0
    return model.to(DEVICE, dtype).eval()


def tied(variant: str) -> dict[str, Any]:
    """The fields that tie the variant's embeddings and output projection."""
    sizes = {"embedding_size": tiny_config(variant).readout_size} if variant in RNN_VARIANTS else {}
    return {"tie_word_embeddings": True, **sizes}


def weights(model: Any) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def aligned(model: PreTrainedModel) -> PreTrainedModel:
    """The model with its weights in memory that torch allocates.

    The weights of a file are at their places in the file. BLAS may take another kernel for these, with another last
    bit.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


@contextmanager
def refused(error: type[Exception] | tuple[type[Exception], ...], *fragments: object) -> Iterator[None]:
    """The block raises ``error``, and its message contains every fragment."""
    with pytest.raises(error) as caught:
        yield
    for fragment in fragments:
        assert str(fragment) in str(caught.value)


# Batches of random tokens ---------------------------------------------------------------------------------------------

# A full row, padding on the left, on the right, on both sides and in between, and nothing but padding.
EVERY_PADDING = [
    [1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 1, 1],
    [1, 1, 1, 0, 0, 0],
    [0, 1, 1, 1, 1, 0],
    [1, 0, 1, 1, 0, 1],
    [0, 0, 0, 0, 0, 0],
]


def words(rows: int, length: int, seed: int = 0, vocab_size: int = VOCAB_SIZE) -> Tensor:
    """Ordinary tokens (rows, length)."""
    return torch.randint(FIRST_WORD, vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def padded(is_real: list[list[int]], seed: int = 0) -> dict[str, Tensor]:
    """input_ids and attention_mask; there are random tokens under the padding, not only the pad token."""
    mask = torch.tensor(is_real)
    return {"input_ids": words(*mask.shape, seed=seed), "attention_mask": mask}


def padded_batch(lengths: list[int], side: str = "right", seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources of these lengths, padded on one side: input_ids and attention_mask, each (rows, longest)."""
    steps = torch.arange(max(lengths))
    mask = (steps.flip(0) if side == "left" else steps) < torch.tensor(lengths).unsqueeze(1)
    return words(*mask.shape, seed=seed).where(mask, torch.tensor(PAD)), mask.long()


def inputs(config: Any, target_length: int = 4) -> dict[str, Tensor]:
    """A batch with every kind of padding, the target that an encoder-decoder needs, the sentences of a pair."""
    batch = padded(EVERY_PADDING)
    rows, length = batch["input_ids"].shape
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = words(rows, target_length, seed=1)
    if getattr(config, "sentence_pair", False):
        batch["token_type_ids"] = (torch.arange(length) % 2).expand(rows, length)
    return batch


def labels_for(model: Any, rows: int = len(EVERY_PADDING), length: int = len(EVERY_PADDING[0])) -> Tensor:
    """Labels for a head: a class of each row, or a word or class at each token, some of them left out."""
    head = type(model).__name__
    if head.endswith("ForSequenceClassification"):
        return torch.arange(rows) % model.config.num_labels
    labels = words(rows, length, seed=2)
    if head.endswith("ForTokenClassification"):
        labels = labels % model.config.num_labels
    labels[0, length // 2 :] = -100
    return labels


def labelled(model: Any) -> dict[str, Tensor]:
    """``inputs`` with labels, from which an encoder-decoder makes its decoder's input."""
    batch = inputs(model.config) | {"labels": labels_for(model)}
    batch.pop("decoder_input_ids", None)
    return batch


def alignments_of(outputs: Any) -> Tensor:
    """The alignments (B, T, S) of a model's outputs; zeros for a model without attention and ``cross_attentions``."""
    if outputs.cross_attentions is None:
        rows, source_length = outputs.encoder_last_hidden_state.shape[:2]
        return outputs.logits.new_zeros(rows, outputs.logits.shape[1], source_length)
    return outputs.cross_attentions[0][:, 0]


def tensors(part: Any) -> list[Tensor]:
    """All tensors of an output or of nested tuples, in order; the cache is left out."""
    if hasattr(part, "to_tuple"):
        part = part.to_tuple()
    if isinstance(part, tuple):
        return [tensor for inner in part for tensor in tensors(inner)]
    return [part] if isinstance(part, Tensor) else []


# Texts, and rows that a Trainer learns --------------------------------------------------------------------------------

SPECIAL_TOKENS = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
LETTERS = string.ascii_lowercase
# Of very unequal lengths, so that a mean of means is not the mean.
TEXTS = ["abc", "d", "efabcdefgh", "gheaf", "db", "dcabeabc", "a"]


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """One token for each letter, and an end after the text, or after each text of a pair."""
    names = [*SPECIAL_TOKENS, *LETTERS]
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", EOS)]
    )
    tokenizer.decoder = decoders.Fuse()
    roles = ("pad_token", "bos_token", "eos_token", "mask_token", "unk_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask", "token_type_ids"],
        **dict(zip(roles, SPECIAL_TOKENS, strict=True)),
    )


TOKENIZER = letter_tokenizer()


def decode(ids: Any) -> list[str]:
    """Texts of generated ids or of labels."""
    return TOKENIZER.batch_decode(np.where(ids == -100, PAD, ids), skip_special_tokens=True)


def make_model(kind: str, seed: int = 0, std: float = 0.4, **overrides: Any) -> Any:
    """A model of a kind, or of a head, for the tokenizer's vocabulary, in single precision."""
    return tiny_model(kind, seed=seed, std=std, dtype=torch.float32, **({"vocab_size": len(TOKENIZER)} | overrides))


def save_folder(kind: str, folder: Path, seed: int = 0, **overrides: Any) -> Path:
    """A complete repository of a tiny model: weights, config, tokenizer and a card."""
    make_model(kind, seed, **overrides).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    header = "---\nlicense: apache-2.0\nlibrary_name: transformers\ntags:\n- attnzoo\n"
    if kind in ("attentional-rnn", "transformer-encoder-decoder"):
        header += "- translation\n"
    (folder / "README.md").write_text(f'{header}---\n\n# {kind}\n\n`from_pretrained("{folder.as_posix()}")`\n')
    return folder


def rows_for(model: Any) -> list[dict[str, Any]]:
    """The texts, or pairs of texts, with the labels or targets of the head."""
    head = type(model).__name__
    rows = []
    for text, other in zip(TEXTS, TEXTS[::-1], strict=True):
        row = dict(TOKENIZER(text, other if getattr(model.config, "sentence_pair", False) else None))
        if "token_type_ids" in row and not head.startswith("SelfAttentive"):
            del row["token_type_ids"]
        if head.endswith("ForSequenceClassification"):
            row["labels"] = int(len(text) > 3)
        elif head.endswith("ForMaskedLM"):  # every other letter
            row["labels"] = [token if at % 2 == 0 else -100 for at, token in enumerate(row["input_ids"])]
        elif head.endswith("ForCausalLM"):
            row["labels"] = row["input_ids"]
        elif head.endswith("ForTokenClassification"):  # of letters, in turn; none of the end
            row["labels"] = [token % model.config.num_labels for token in row["input_ids"][:-1]] + [-100]
        else:  # the text from its end
            row["labels"] = TOKENIZER(text[::-1])["input_ids"]
        rows.append(row)
    return rows


def collator_for(model: Any) -> Any:
    if type(model).__name__.endswith("ForSequenceClassification"):
        return DataCollatorWithPadding(TOKENIZER)
    return DataCollatorForSeq2Seq(TOKENIZER, model=model if model.config.is_encoder_decoder else None)


def batch_for(model: Any, with_labels: bool = True) -> dict[str, Tensor]:
    """All rows as one batch, padded."""
    batch = {key: value.to(DEVICE) for key, value in collator_for(model)(rows_for(model)).items()}
    if not with_labels:
        del batch["labels"]
    return batch


ONE_STEP: dict[str, Any] = {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}


def make_trainer(model: Any, folder: Path, parts: dict[str, Any] | None = None, **settings: Any) -> Trainer:
    """The Trainer for this head, with one batch a step; ``parts`` are the Trainer's own arguments.

    By default it learns ``rows_for(model)``.
    """
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
    quiet["use_cpu"] = DEVICE.type == "cpu"
    batches = {"per_device_train_batch_size": len(TEXTS), "per_device_eval_batch_size": len(TEXTS), "max_steps": 1}
    kinds = (
        (Seq2SeqTrainingArguments, Seq2SeqTrainer) if model.config.is_encoder_decoder else (TrainingArguments, Trainer)
    )
    arguments_class, trainer_class = kinds
    given = {"data_collator": collator_for(model), "processing_class": TOKENIZER}
    given |= {"train_dataset": rows_for(model), "eval_dataset": rows_for(model)} | (parts or {})
    return trainer_class(model=model, args=arguments_class(str(folder), **(quiet | batches | settings)), **given)
