"""Random configs and random batches, many of them wrong, as a user may give them, by mistake or not.

A case is its number: ``batch_case(7)`` is the same at every call, and
``python -m tests.every_family.fuzz batch 7`` runs it alone.
"""

import functools
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutput

from attnzoo import SmallTransformerConfig
from attnzoo.attention import SCORES
from attnzoo.modeling_attentional_rnn import RecurrentEncoderOutput
from attnzoo.recurrent_cache import RecurrentDecoderCache
from tests.factory import FAMILIES, KINDS, MODELS, make_model, tiny_model

VOCAB = 13
# What a message may say for two arguments that do not fit each other.
WORDS = {"input_ids": "source", "inputs_embeds": "source", "encoder_outputs": "source"}
WORDS |= {"decoder_input_ids": "target", "decoder_inputs_embeds": "target", "labels": "target"}
NAN, INF = float("nan"), float("inf")


@dataclass
class Case:
    """A call, the name by which it can be repeated, and its unusual arguments."""

    title: str
    changed: dict[str, Any]
    call: Callable[[], Any]


def verdict(case: Case) -> str | None:
    """None if the case works with finite results, or its error names the cause; else a description of the fault."""
    try:
        result = case.call()
    except (ValueError, TypeError, StrictDataclassError) as error:
        if isinstance(error, StrictDataclassError) and not isinstance(error.__cause__, ValueError | TypeError):
            return f"{case.title}\n  {type(error).__name__}: {error}"
        names = [*case.changed, *(WORDS[name] for name in case.changed if name in WORDS)]
        if any(re.search(rf"\b{name}\b", str(error)) for name in names):
            return None
        return f"{case.title}\n  names none of {', '.join(case.changed)}: {type(error).__name__}: {error}"
    except Exception as error:  # the third outcome
        return f"{case.title}\n  {type(error).__name__}: {error}"
    odd = [name for name, tensor in tensors("", result) if tensor.is_floating_point() and not tensor.isfinite().all()]
    return f"{case.title}\n  not finite: {', '.join(odd)}" if odd else None


def tensors(name: str, part: Any) -> list[tuple[str, Tensor]]:
    """All tensors in outputs, with their names, except those of caches, whose free room may have any values."""
    if isinstance(part, Tensor):
        return [(name, part)]
    if isinstance(part, Cache) or part is None:
        return []
    pairs = part.items() if hasattr(part, "items") else ((f"{name}[{at}]", inner) for at, inner in enumerate(part))
    return [found for key, inner in pairs for found in tensors(key, inner)]


# Configs --------------------------------------------------------------------------------------------------------------

CONFIGS: dict[type[PreTrainedConfig], dict[str, Any]] = {config_class: sizes for config_class, sizes, *_ in FAMILIES}
# Every model class of a config's family, once.
CLASSES = {
    config_class: [*dict.fromkeys(head for head, _ in MODELS.values() if head.config_class is config_class)]
    for config_class in CONFIGS
}
CHOICES: dict[str, list[Any]] = {
    name: list(get_args(annotation))
    for config_class in CONFIGS
    for name, annotation in config_class.__annotations__.items()
    if get_origin(annotation) is Literal
}
CHOICES["score"] = ["none", *SCORES, None]
CHOICES["problem_type"] = ["regression", "single_label_classification", "multi_label_classification", None]
ODD = ["", "big", None, True, 2.5, -1, 0, [1], {}, NAN, INF, 10**5, 10**8, 10**18, -(10**9)]


def config_case(number: int) -> Case:
    """A config with up to four fields that are drawn anew, mostly from valid values; a model of it; a batch."""
    draw = random.Random(f"config {number}")
    config_class = draw.choice(list(CONFIGS))
    names = [field.name for field in fields(config_class) if field.name in vars(config_class)["__annotations__"]]
    names += ["num_labels", "hidden_size", "num_hidden_layers", "problem_type", "dtype"]
    changed = {}
    for name in draw.sample(names, draw.randint(1, 4)):
        default = getattr(config_class, name, 3)
        if draw.random() < 0.3:
            changed[name] = draw.choice(ODD)
        elif name in CHOICES:
            changed[name] = draw.choice(CHOICES[name])
        elif isinstance(default, bool):
            changed[name] = draw.random() < 0.5
        elif isinstance(default, float):
            changed[name] = draw.choice([0.0, 0.1, 0.5, 1.0, 1, 0])
        elif name.endswith("token_id"):
            changed[name] = draw.choice([0, 1, 2, VOCAB - 1, VOCAB, [1, 2], [1, VOCAB], None])
        elif name == "dtype":
            changed[name] = draw.choice(["float32", "bfloat16", "float64", "flat32", "nn"])
        else:
            changed[name] = draw.choice([1, 2, 3, 4, 6, 8, 14])
    head = draw.choice(CLASSES[config_class])
    given = CONFIGS[config_class] | changed

    def call() -> Any:
        config = config_class(**given)
        torch.manual_seed(number)
        model = head(config).eval()
        size = model.config.vocab_size
        ids = torch.randint(0, size, (2, 4), generator=torch.Generator().manual_seed(number))
        batch = {"input_ids": ids, "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}
        if model.config.is_encoder_decoder:
            batch["decoder_input_ids"] = ids[:, :3]
        if getattr(model.config, "sentence_pair", False):
            batch["token_type_ids"] = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
        return model(**batch)

    aliases = {config_class.attribute_map.get(name, name): None for name in changed}
    changed_names = changed | aliases | ({"attention_pattern": None} if config_class is SmallTransformerConfig else {})
    title = f"config {number}: {head.__name__} of {config_class.__name__}(**{given})"
    return Case(title, changed_names, call)


# Batches --------------------------------------------------------------------------------------------------------------


@functools.cache
def model_of(name: str) -> Any:
    if name in KINDS:
        return make_model(name)
    return tiny_model(name, dtype=torch.float32)


NAMES = [*KINDS, *MODELS]


def embedding_size(model: Any) -> int:
    return model.get_input_embeddings().weight.shape[1]


class Drawing:
    """A batch that fits a model, and changes that make it wrong: each change is a method."""

    def __init__(self, name: str, number: int) -> None:
        self.draw = random.Random(f"batch {number}")
        self.noise = torch.Generator().manual_seed(number)
        self.model = model_of(name)
        self.config = self.model.config
        self.rows, self.length, self.target = (self.draw.randint(1, most) for most in (3, 6, 5))
        self.is_classifier = type(self.model).__name__.endswith("Classification")
        self.batch: dict[str, Any] = {"input_ids": self.ids(self.rows, self.length)}
        if self.config.is_encoder_decoder:
            self.batch["decoder_input_ids"] = self.ids(self.rows, self.target)
        if getattr(self.config, "sentence_pair", False):
            self.length = max(self.length, 2)
            self.batch = {"input_ids": self.ids(self.rows, self.length)}
            self.batch["token_type_ids"] = torch.arange(self.length).gt(0).long().expand(self.rows, -1)
        self.changed: dict[str, Any] = {}

    def ids(self, rows: int, length: int) -> Tensor:
        return torch.randint(3, min(VOCAB, self.config.vocab_size), (rows, length), generator=self.noise)

    def set(self, name: str, value: Any) -> None:
        self.batch[name] = self.changed[name] = value

    def shape(self, name: str) -> tuple[int, int]:
        """A shape, mostly the right one."""
        is_target = name.startswith("decoder_") or (name.endswith("labels") and self.config.is_encoder_decoder)
        length = self.target if is_target else self.length
        if self.draw.random() < 0.8:
            return self.rows, length
        return self.draw.randint(0, 4), self.draw.randint(0, 6)

    def change_ids(self) -> None:
        name = self.draw.choice([n for n in self.batch if n.endswith("ids")] or ["input_ids"])
        good = self.ids(*self.shape(name))
        some = good.clone()
        if some.numel():
            some[-1, -1] = self.draw.choice([-1, -100, self.config.vocab_size, 10**12])
        kinds = [good, good.int(), good.short(), good.to(torch.uint8), good.float(), good.bool(), good.tolist()]
        kinds += [good.numpy(), "abc", 3, [good], {"input_ids": good}, some, good.flatten(), good[None]]
        kinds += [good.to("meta"), np.array(3), None, good[:, :0], good[:0], good.to(torch.complex64), torch.tensor(3)]
        self.set(name, self.draw.choice(kinds))

    def change_mask(self) -> None:
        names = ["attention_mask"] + ["decoder_attention_mask"] * self.config.is_encoder_decoder
        name = self.draw.choice(names)
        rows, length = self.shape(name)
        pattern = self.draw.choice(["right", "left", "holes", "all", "none"])
        kept = torch.randint(1, max(length, 1) + 1, (rows, 1), generator=self.noise)
        places = torch.arange(length).expand(rows, -1)
        mask = {
            "right": places < kept,
            "left": places >= length - kept,
            "holes": torch.rand(rows, length, generator=self.noise) < 0.6,
            "all": places < 0,
            "none": places >= 0,
        }[pattern]
        low = self.draw.choice([-INF, -1e9, -1e4, torch.finfo(torch.float32).min, -1.0])
        additive = torch.zeros(mask.shape).masked_fill(~mask, low)
        odd = mask.float()
        if odd.numel():
            odd[0, -1] = self.draw.choice([NAN, INF, -INF, 0.5, 2.0, -1.0])
        kinds = [mask, mask.long(), mask.int(), mask.to(torch.uint8), mask.float(), mask.half()]
        kinds += [mask.to(torch.bfloat16), mask.bool(), mask.long(), additive, additive.double(), odd, mask.long() * 2]
        kinds += [-mask.long() * 10000, mask.tolist(), mask.numpy(), "1111", 1, mask[:, None, None], mask[:1]]
        kinds += [mask.long().flatten(), mask.to(torch.complex64), mask.long().to("meta"), mask.int() * 10**9]
        kinds += [additive[:, None, None]]
        self.set(name, self.draw.choice(kinds))

    def change_labels(self) -> None:
        rows, length = self.shape("labels")
        if self.draw.random() < 0.3:
            self.batch.pop("decoder_input_ids", None)
        if self.is_classifier and self.draw.random() < 0.8:
            good = torch.randint(0, self.config.num_labels, (rows,), generator=self.noise)
        else:
            good = self.ids(rows, length)
        high = self.config.num_labels if self.is_classifier else self.config.vocab_size
        some = good.clone()
        if some.numel():
            some.view(-1)[-1] = self.draw.choice([-1, high, -100, 10**12, -(10**12)])
        ends = good.clone()
        if good.numel():
            ends[..., 0] = -100
        kinds = [good, good, good.int(), good.short(), good.to(torch.uint8), good.float(), good.bool(), good.tolist()]
        kinds += [good.numpy(), "abc", 3, some, some, torch.full_like(good, -100), ends, good[None], good.float() * NAN]
        kinds += [good.float() * INF, torch.rand(rows, 2), good.to(torch.complex64), torch.tensor(1), good.to("meta")]
        self.set("labels", self.draw.choice(kinds))
        options = {"num_items_in_batch": [3, 0, -3, torch.tensor(4), "3", NAN, 2.5, [1]]}
        options["smoothing"] = [0.1, -0.5, NAN, 2.0, "x", None, 0]
        if not self.is_classifier:
            options["skip_logits"] = [True, False, None]
        for name, values in options.items():
            if self.draw.random() < 0.25:
                self.set(name, self.draw.choice(values))

    def change_embeddings(self) -> None:
        side = self.draw.choice(["", "decoder_"] if self.config.is_encoder_decoder else [""])
        rows, length = self.shape(f"{side}inputs_embeds")
        good = torch.randn(rows, length, embedding_size(self.model), generator=self.noise)
        odd = good.clone()
        if odd.numel():
            odd[-1, -1] = self.draw.choice([NAN, INF, -INF])
        kinds = [good, good, odd, odd, good.half(), good.double(), good.long(), good.tolist(), good.numpy()]
        kinds += [good[..., :-1], good[0] if rows else good, good.to("meta"), "abc"]
        if self.draw.random() < 0.8:
            self.batch.pop(f"{side}input_ids", None)
        self.set(f"{side}inputs_embeds", self.draw.choice(kinds))

    def change_source(self) -> None:
        """Encoder outputs of the model, of another, or in another form."""
        width = getattr(self.config, "encoder_output_size", self.config.hidden_size)
        rows, length = self.shape("input_ids")
        wrong = self.draw.choice([width, width, width + 1])
        states = torch.randn(rows, length, wrong, generator=self.noise)
        if states.numel() and self.draw.random() < 0.2:
            states[0, 0] = NAN
        final = torch.randn(rows, 1, wrong, generator=self.noise)
        kinds = [states, (states,), BaseModelOutput(states), [states], "abc", states.tolist(), (), BaseModelOutput()]
        kinds += [RecurrentEncoderOutput(states, final, final), RecurrentEncoderOutput(states, final)]
        kinds += [RecurrentEncoderOutput(states, final[:, :, :-1], None), {"last_hidden_state": states}, (None,)]
        if hasattr(self.model, "get_encoder") and self.config.is_encoder_decoder:
            own = self.model.get_encoder()(self.ids(max(1, rows), max(1, length)))
            kinds += [own] * 4
        if self.draw.random() < 0.7:
            self.batch.pop("input_ids", None)
        self.set("encoder_outputs", self.draw.choice(kinds))

    def change_past(self) -> None:
        rows = self.draw.choice([self.rows, self.rows, self.rows + 1])
        other = model_of(self.draw.choice(["attentional-rnn", "transformer-causal", "transformer-encoder-decoder"]))
        maker = self.draw.choice([self.model, self.model, other])
        start = {"input_ids": self.ids(rows, self.draw.choice([self.length, 2]))}
        if maker.config.is_encoder_decoder:
            start["decoder_input_ids"] = self.ids(rows, 2)
        if getattr(maker.config, "sentence_pair", False):
            start["token_type_ids"] = torch.arange(start["input_ids"].shape[1]).gt(0).long().expand(rows, -1)
        past = getattr(maker(**start, use_cache=True), "past_key_values", None)
        kinds = [past, past, past, DynamicCache(), EncoderDecoderCache(DynamicCache(), DynamicCache())]
        kinds += [((1, 2),), "abc", RecurrentDecoderCache(), 3, torch.zeros(2)]
        self.set("past_key_values", self.draw.choice(kinds))

    def change_flags(self) -> None:
        name = self.draw.choice(["use_cache", "output_attentions", "output_hidden_states", "return_dict"])
        self.set(name, self.draw.choice([True, True, False, None]))

    def change_others(self) -> None:
        positions = torch.arange(self.length).expand(self.rows, -1)
        segments = torch.randint(0, 2, (self.rows, self.length), generator=self.noise)
        options: dict[str, list[Any]] = {
            "position_ids": [positions, positions + 3, positions.flip(1), positions - 9, positions.float()],
            "decoder_position_ids": [positions[:, :1], positions[:1], positions + 10**6, positions.tolist(), "abc"],
            "token_type_ids": [segments, segments * 0, segments + 1, segments.float(), segments[:, :1], "abc"],
            "logits_to_keep": [0, 1, 2, 99, -1, "x", None, torch.tensor([0]), 1.5],
            "shift_labels": [positions * 0 + 3, "abc"],
            "cache_position": [torch.arange(3)],
            "head_mask": [torch.ones(2)],
            "input_id": [3],
            "atention_mask": [torch.ones(2, 2)],
            "cu_seq_lens_q": [torch.tensor([0, 2]), None],
            "is_causal": [True, False, None],
            "lenghts": [3],
            "smoothing": [0.1, NAN],
        }
        name = self.draw.choice(list(options))
        self.set(name, self.draw.choice(options[name]))


CHANGES = ["ids", "mask", "mask", "labels", "labels", "embeddings", "source", "past", "flags", "others"]


def batch_case(number: int) -> Case:
    """A batch of a random model with up to three changes, in training mode or not."""
    choose = random.Random(f"model {number}")
    name = choose.choice(NAMES)
    drawing = Drawing(name, number)
    for change in choose.choices(CHANGES, k=choose.randint(0, 3)):
        getattr(drawing, f"change_{change}")()
    model, batch = drawing.model, drawing.batch
    is_training = choose.random() < 0.3

    def call() -> Any:
        model.train(is_training)
        try:
            with torch.set_grad_enabled(is_training):
                return model(**batch)
        finally:
            model.eval()

    title = " ".join(f"batch {number}: {name}{' in training' if is_training else ''}, {batch}".split())
    return Case(title, drawing.changed, call)


if __name__ == "__main__":
    found = {"config": config_case, "batch": batch_case}[sys.argv[1]](int(sys.argv[2]))
    print(found.title)
    print(found.call())
