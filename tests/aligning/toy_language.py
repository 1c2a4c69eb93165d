"""A small language and its translation, whose alignment is known, and models that learn it in seconds.

A sentence has phrases: a noun, or an adjective and a noun. The translation puts the adjective behind the noun. No word
occurs twice in a sentence, and none can be guessed from the words before it: every word needs its source word.
"""

import random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    SmallTransformerConfig,
    SmallTransformerForConditionalGeneration,
)
from attnzoo.alignment import Links

ADJECTIVES, NOUNS = ([f"{kind}{n}" for n in range(8)] for kind in ("adjective", "noun"))
WORDS = [*ADJECTIVES, *NOUNS]
TARGET_WORDS = [f"{word}-x" for word in WORDS]
VOCABULARY = {word: number for number, word in enumerate(["<pad>", "<s>", "</s>", *WORDS, *TARGET_WORDS])}
SIZE = len(VOCABULARY)


def sentence(generator: random.Random) -> tuple[list[str], list[str], Links]:
    """A sentence, its translation, and the links of their words."""
    source: list[str] = []
    target: list[str] = []
    links: Links = set()
    adjectives = generator.sample(ADJECTIVES, 3)
    for noun in generator.sample(NOUNS, generator.randrange(2, 4)):
        phrase = [adjectives.pop(), noun] if generator.random() < 0.5 else [noun]
        for place in reversed(range(len(phrase))):
            links.add((len(source) + place, len(target)))
            target.append(f"{phrase[place]}-x")
        source += phrase
    return source, target, links


def corpus(count: int, seed: int) -> tuple[list[list[str]], list[list[str]], list[Links]]:
    """Sentences, their translations and links."""
    generator = random.Random(seed)
    sources, targets, links = zip(*(sentence(generator) for _ in range(count)), strict=True)
    return list(sources), list(targets), list(links)


def tokenizer() -> Any:
    """A token for every word, and the end of a sentence."""
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


BART = {"d_model": 64, "init_std": 0.1, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4}
BART |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 32}
BART |= {"vocab_size": SIZE, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "dropout": 0.0}
SMALL = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128}


# The encoder is narrow: a wide one has a word in the states of its neighbours too, where attention may find it.
RNN = {"embedding_size": 32, "encoder_hidden_size": 8, "decoder_hidden_size": 64, "attention_size": 32}
RNN |= {"readout_size": 32}
STEPS = {"bart": 100, "t5": 450}
LEARNING_RATES = {"rnn": 1e-2}


def model(name: str) -> Any:
    """An untrained model."""
    torch.manual_seed(0)
    if name == "bart":
        return BartForConditionalGeneration(BartConfig(**BART, decoder_start_token_id=1))
    if name == "marian":
        return MarianMTModel(MarianConfig(**BART, decoder_start_token_id=0, scale_embedding=True))
    if name == "t5":
        sizes = {
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 1,
            "num_decoder_layers": 2,
            "num_heads": 4,
            "dropout_rate": 0.0,
        }
        return T5ForConditionalGeneration(
            T5Config(**sizes, vocab_size=SIZE, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
        )
    if name == "rnn":
        wiring: Any = {"wiring": "luong", "cell": "lstm", "score": "general", "dropout": 0.0, "initializer_range": 0.3}
        return AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(**RNN, **wiring, vocab_size=SIZE))
    config: Any = SmallTransformerConfig(**SMALL, vocab_size=SIZE, dropout=0.0, norm="pre")
    return SmallTransformerForConditionalGeneration(config)


def numbers(sentences: list[list[str]], padding: int) -> torch.Tensor:
    """The tokens of sentences, as numbers."""
    rows = [torch.tensor([*(VOCABULARY[word] for word in words), 2]) for words in sentences]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)


def train(name: str, is_reversed: bool = False) -> Any:
    """A model of the language, or of the other direction."""
    steps, learning_rate = STEPS.get(name, 200), LEARNING_RATES.get(name, 4e-3)
    learner = model(name).train()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=learning_rate, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps)
    sources, targets, _ = corpus(64 * steps, seed=0)
    if is_reversed:
        sources, targets = targets, sources
    for ids, labels in zip(numbers(sources, 0).split(64), numbers(targets, -100).split(64), strict=True):
        learner(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return learner.eval()
