"""A tiny model of every family and head, a tokenizer, and rows to learn: what the tests of all families share.

The weights are drawn wide, so that outputs differ and nothing hides behind a start at zero.
"""

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
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
    SelfAttentiveConfig,
    SelfAttentiveForSequenceClassification,
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
)

SPECIAL_TOKENS = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
LETTERS = string.ascii_lowercase
# Of very unequal lengths, so that a mean of means is not the mean.
TEXTS = ["abc", "d", "efabcdefgh", "gheaf", "db", "dcabeabc", "a"]

RNN: dict[str, Any] = {"embedding_size": 8, "encoder_hidden_size": 4, "decoder_hidden_size": 8, "attention_size": 5}
LIN: dict[str, Any] = {"embedding_size": 8, "hidden_size": 6, "attention_hidden_size": 5, "num_hops": 3}
LIN |= {"classifier_size": 7, "num_labels": 2, "eos_token_id": 2}
TRANSFORMER: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 64,
}
# Every family, and every head of the Transformer under every pattern that it is for.
KINDS: dict[str, tuple[type[PreTrainedModel], type, dict[str, Any]]] = {
    "attentional-rnn": (AttentionalRNNForConditionalGeneration, AttentionalRNNConfig, RNN),
    "attentional-rnn-luong": (
        AttentionalRNNForConditionalGeneration,
        AttentionalRNNConfig,
        RNN | {"wiring": "luong", "cell": "lstm", "window": "predictive", "window_size": 2, "input_feeding": True},
    ),
    "self-attentive": (SelfAttentiveForSequenceClassification, SelfAttentiveConfig, LIN),
    "self-attentive-pair": (
        SelfAttentiveForSequenceClassification,
        SelfAttentiveConfig,
        LIN | {"sentence_pair": True, "gate_size": 4},
    ),
    "transformer-encoder-decoder": (SmallTransformerForConditionalGeneration, SmallTransformerConfig, TRANSFORMER),
    "transformer-causal": (
        SmallTransformerForCausalLM,
        SmallTransformerConfig,
        TRANSFORMER | {"attention_pattern": "causal", "position_embedding": "learned", "norm": "pre"},
    ),
    "transformer-masked": (
        SmallTransformerForMaskedLM,
        SmallTransformerConfig,
        TRANSFORMER | {"attention_pattern": "bidirectional", "attention_bias": True},
    ),
    "transformer-classifier": (
        SmallTransformerForSequenceClassification,
        SmallTransformerConfig,
        TRANSFORMER | {"attention_pattern": "bidirectional", "num_labels": 2},
    ),
    "transformer-causal-classifier": (
        SmallTransformerForSequenceClassification,
        SmallTransformerConfig,
        TRANSFORMER | {"attention_pattern": "causal", "num_labels": 2},
    ),
    "transformer-tagger": (
        SmallTransformerForTokenClassification,
        SmallTransformerConfig,
        TRANSFORMER | {"attention_pattern": "bidirectional", "num_labels": 3},
    ),
}


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """One token per letter and an end after the text, or after either of a pair."""
    names = [*SPECIAL_TOKENS, *LETTERS]
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 2)]
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


def make_model(kind: str, seed: int = 0, std: float = 0.4, **overrides: Any) -> Any:
    """A model in eval mode, every weight from N(0, std^2), without dropout."""
    model_class, config_class, fields = KINDS[kind]
    without_dropout = {name: 0.0 for name in ("dropout", "classifier_dropout") if hasattr(config_class, name)}
    model = model_class(config_class(vocab_size=len(TOKENIZER), **(without_dropout | fields | overrides)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=std, generator=generator)
    return model.eval()


def save_folder(kind: str, folder: Path, seed: int = 0) -> Path:
    """A whole repository of a tiny model: weights, config, tokenizer and a card."""
    make_model(kind, seed).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    header = "---\nlicense: apache-2.0\nlibrary_name: transformers\ntags:\n- attnzoo\n"
    if kind in ("attentional-rnn", "transformer-encoder-decoder"):
        header += "- translation\n"
    (folder / "README.md").write_text(f'{header}---\n\n# {kind}\n\n`from_pretrained("{folder.as_posix()}")`\n')
    return folder


def rows_for(model: Any) -> list[dict[str, Any]]:
    """The texts, or pairs of them, with what the head learns."""
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


def batch_for(model: Any, with_labels: bool = True) -> dict[str, torch.Tensor]:
    """All rows as one batch, padded."""
    batch = dict(collator_for(model)(rows_for(model)))
    if not with_labels:
        del batch["labels"]
    return batch


def make_trainer(model: Any, folder: Path, parts: dict[str, Any] | None = None, **settings: Any) -> Trainer:
    """The Trainer that the head is for, of one batch a step; ``parts`` are the Trainer's own arguments."""
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no", "use_cpu": True}
    batches = {"per_device_train_batch_size": len(TEXTS), "per_device_eval_batch_size": len(TEXTS), "max_steps": 1}
    kinds = (
        (Seq2SeqTrainingArguments, Seq2SeqTrainer) if model.config.is_encoder_decoder else (TrainingArguments, Trainer)
    )
    arguments_class, trainer_class = kinds
    return trainer_class(
        model=model,
        args=arguments_class(output_dir=str(folder), **(quiet | batches | settings)),
        train_dataset=rows_for(model),
        eval_dataset=rows_for(model),
        data_collator=collator_for(model),
        processing_class=TOKENIZER,
        **(parts or {}),
    )


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
