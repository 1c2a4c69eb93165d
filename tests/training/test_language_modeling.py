"""Language modelling, from a user's texts to an evaluated model, and errors of texts."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attnzoo.training import evaluate, release
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.studies.claims.it_finds_its_noun import word_attention
from attnzoo.training.tasks.language_modeling import (
    CausalLanguageModeling,
    LanguageModeling,
    MaskedLanguageModeling,
    TextData,
)
from attnzoo.training.tasks.log_probability import log_probabilities, sliding_windows, text_ids
from attnzoo.training.tasks.metrics import BitsPerByte, WordPerplexity
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedTokenizerFast, pipeline

from attnzoo import SmallTransformerConfig, SmallTransformerForCausalLM, SmallTransformerForMaskedLM
from attnzoo.loss import IGNORED
from tests.training.runs import overrides, train_recipe

ROOT = Path(__file__).parents[2]
TASKS = {"causal": CausalLanguageModeling, "masked": MaskedLanguageModeling}
SMALL = [
    *overrides("model", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, dropout=0),
    *overrides("task.data", vocabulary_size=300, block_size=32),
    *overrides("training", max_minutes=None, max_steps=150, batch_tokens=1280, learning_rate=1e-2, warmup_steps=10),
    *overrides("training", precision="fp32", evaluations=1),
]


def paragraphs(number: int = 300) -> list[str]:
    """Different texts of a language in which an animal's name decides its sound, and its number how often it sounds."""
    random = np.random.default_rng(0)
    texts: dict[str, None] = {}
    while len(texts) < number:
        sentences = []
        for _ in range(int(random.integers(2, 5))):
            animal, says = (("dog", "woof"), ("cat", "miaow"), ("cow", "moo"))[random.integers(3)]
            times = int(random.integers(1, 4))
            sentences.append(
                f"{('One', 'Two', 'Three')[times - 1]} times the {animal} says {' '.join([says] * times)}."
            )
        texts[" ".join(sentences)] = None
    return list(texts)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("animals") / "animals.txt"
    path.write_text("\n\n".join(paragraphs()) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=list(TASKS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def trained(kind: str, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training on the animals; not to be changed."""
    sets = [*SMALL, f"task.data.path={corpus}"]
    return train_recipe(f"small_transformer_sotu_{kind}", tmp_path_factory.mktemp(kind), sets)


def task_of(kind: str, corpus: Path, block_size: int = 32) -> LanguageModeling:
    return TASKS[kind](TextData(path=str(corpus), vocabulary_size=300, block_size=block_size))


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> PreTrainedTokenizerFast:
    return task_of("masked", corpus).make_tokenizer()


def tiny(tokenizer: PreTrainedTokenizerFast, pattern: str, **fields: Any) -> SmallTransformerConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return SmallTransformerConfig(attention_pattern=pattern, vocab_size=len(tokenizer), dropout=0.5, **sizes, **fields)


def test_perplexities_too_large_for_a_number_are_infinite() -> None:
    assert WordPerplexity().compute(predictions=[-800.0], references=["word"])["word_perplexity"] == math.inf
    with pytest.raises(ValueError, match=r"at most 0, got nan as predictions\[1\]"):
        WordPerplexity().compute(predictions=[-1.0, math.nan], references=["a", "b"])


def test_it_learns_and_is_evaluated_as_it_was_in_training(
    kind: str, trained: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads((trained / "run.json").read_text())["validation"]
    if kind == "causal":
        assert found["word_perplexity"] < 3  # of five words at least three have no choice; a uniform one has 13
        name = "perplexity per word"
        figure = f"{found['word_perplexity']:.2f}, bits per byte {found['bits_per_byte']:.2f}"
    else:
        assert found["masked_accuracy"] > 45  # of what is masked no more than the animals' words can be known
        name = "accuracy of masked tokens"
        figure = f"{found['masked_accuracy']:.2f} %, nats per masked token {found['masked_loss']:.2f}"
    evaluate.main([str(trained / "best"), "--split", "validation"])
    assert f"{name} {figure}\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="num_beams=2 is for predictions that are generated"):
        evaluate.main([str(trained / "best"), "--num-beams", "2"])


def test_pipelines_run_on_what_was_trained(kind: str, trained: Path) -> None:
    if kind == "causal":
        generate = pipeline("text-generation", str(trained / "best"))
        text = generate("Three times the cow", max_new_tokens=8, do_sample=False)[0]["generated_text"]
        assert text.startswith("Three times the cow says moo moo moo.")
    else:
        fill = pipeline("fill-mask", str(trained / "best"))
        best, *_ = fill("Three times the cow says moo<mask> moo.")
        assert best["sequence"] == "Three times the cow says moo moo moo."


@pytest.mark.parametrize("name", TASKS)
def test_pipelines_run_on_the_shipped_models(name: str) -> None:
    folder = str(ROOT / "model_cards" / f"small-transformer-sotu-{name}")
    if name == "causal":
        generate = pipeline("text-generation", folder)
        text = generate("The people of the United", max_new_tokens=1, do_sample=False)[0]["generated_text"]
        assert text == "The people of the United States"
    else:
        fill = pipeline("fill-mask", folder)
        assert fill("The people of the United<mask> have the power.")[0]["token_str"] == " States"


def test_a_release_is_complete(kind: str, trained: Path, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "animals"
    release.main([str(trained), str(folder)])
    auto_class = AutoModelForCausalLM if kind == "causal" else AutoModelForMaskedLM
    assert {weight.dtype for weight in auto_class.from_pretrained(folder).parameters()} == {torch.float32}
    task = task_of(kind, corpus)
    scores = evaluate.evaluate(folder, task, "test")
    card = (folder / "README.md").read_text()
    cells = [str(scores["examples"]), *(f"{scores[name]:.2f}" for name in task.metric_names)]
    columns = [f"{name}{task.units.get(key, '')}" for key, name in task.metric_names.items()]
    assert f"| split | examples | {' | '.join(columns)} |" in card
    assert f"| test | {' | '.join(cells)} |" in card
    assert "decoding" not in card
    for name in task.card.pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert str(corpus.parent).encode() not in path.read_bytes()


def test_what_a_word_looks_at_is_measured_word_by_word(tokenizer: PreTrainedTokenizerFast) -> None:
    torch.manual_seed(0)
    model = SmallTransformerForMaskedLM(tiny(tokenizer, "bidirectional")).double().eval()
    sentence = "The cat did not cross it."  # most words are several tokens
    words, weights = word_attention(model, tokenizer, sentence, "it")
    assert words == ["<s>", "The", "cat", "did", "not", "cross", "it", ".", "</s>"]
    assert weights.shape == (2, 2, len(words))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, dtype=torch.float64))
    ids = tokenizer(sentence)["input_ids"]
    pieces = tokenizer.batch_decode([[token] for token in ids])
    starts = [
        place for place, piece in enumerate(pieces) if piece[0] in "<T ."
    ]  # of the words, the first of which is The
    spans = list(zip(starts, [*starts[1:], len(ids)], strict=True))
    with torch.no_grad():
        attentions = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    for number, (start, end) in enumerate(spans):
        by_hand = attentions[1][0, 1, slice(*spans[words.index("it")]), start:end].mean(dim=0).sum()
        torch.testing.assert_close(weights[1, 1, number], by_hand)


@settings(deadline=None, max_examples=50)
@given(length=st.integers(2, 60), size=st.integers(3, 20))
def test_windows_predict_every_token_once_from_half_a_window_at_least(length: int, size: int) -> None:
    windows = sliding_windows(length, size)
    assert [token for _, first, end in windows for token in range(first, end)] == list(range(1, length))
    for start, first, end in windows:
        assert end - start <= size
        assert first - start >= min(first, size / 2)


@pytest.mark.parametrize("size", [3, 4, 7, 16, 1000])
def test_blocks_hold_every_token_once(kind: str, corpus: Path, tokenizer: PreTrainedTokenizerFast, size: int) -> None:
    task = task_of(kind, corpus, size)
    for text in [*paragraphs(3), "a"]:
        ids = text_ids(tokenizer, text)
        blocks = task.blocks(text_ids(tokenizer, text), task.data.block_size)
        assert all(2 <= len(block) <= size for block in blocks)
        if kind == "causal":  # all but the first of a block are predicted; it is the last of the block before
            assert [token for block in blocks for token in block[1:]] == ids[1:]
            assert [block[0] for block in blocks] == [ids[0], *(block[-1] for block in blocks[:-1])]
        else:
            assert [token for block in blocks for token in block[1:-1]] == ids[1:-1]
            assert {(block[0], block[-1]) for block in blocks} == {(ids[0], ids[-1])}
    rows = task.training_examples(tokenizer)["input_ids"]
    assert rows[:] == [
        block
        for text in task.splits["train"]["text"]
        for block in task.blocks(text_ids(tokenizer, text), task.data.block_size)
    ]


def test_the_blocks_of_an_earlier_run_come_from_the_cache(kind: str, corpus: Path) -> None:
    """The encoded rows of a second run have the same key, whatever else the task holds."""
    keys = set()
    for _ in range(2):
        task = task_of(kind, corpus)
        keys.add(task.training_examples(task.make_tokenizer())._fingerprint)
    assert len(keys) == 1


def test_no_block_begins_with_a_label(corpus: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    task = task_of("causal", corpus)
    rows = [{"input_ids": [1, 5, 6, 2]}, {"input_ids": [6, 7]}]
    batch = task.collator(tokenizer, None)(rows)
    assert batch["input_ids"].tolist() == [[1, 5, 6, 2], [6, 7, 0, 0]]
    assert batch["labels"].tolist() == [[IGNORED, 5, 6, 2], [IGNORED, 7, IGNORED, IGNORED]]


def test_of_the_masked_tokens_80_percent_are_masked_10_replaced_and_10_left(
    corpus: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    torch.manual_seed(0)
    collate = task_of("masked", corpus).collator(tokenizer, None)
    rows = [{"input_ids": [1, *[token] * 98, 2]} for token in range(10, 260)]
    first, second = collate(rows), collate(rows)
    assert not torch.equal(first["labels"], second["labels"])  # others every time
    ids, labels = first["input_ids"], first["labels"]
    original = torch.tensor([row["input_ids"] for row in rows])
    chosen = labels != IGNORED
    assert torch.equal(labels[chosen], original[chosen])
    assert torch.equal(ids[~chosen], original[~chosen])
    assert not chosen[:, [0, -1]].any()

    def assert_share(part: torch.Tensor, of: torch.Tensor, share: float) -> None:
        number = int(of.sum())
        assert abs(int((part & of).sum()) - share * number) < 5 * math.sqrt(share * (1 - share) * number)

    assert_share(chosen[:, 1:-1], torch.ones_like(chosen[:, 1:-1]), 0.15)
    is_mask = ids == tokenizer.mask_token_id
    assert_share(is_mask, chosen, 0.8 + 0.1 / len(tokenizer))
    assert_share(ids == original, chosen, 0.1 + 0.1 / len(tokenizer))


def test_the_masks_of_an_evaluation_are_a_rows_own(corpus: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    task = task_of("masked", corpus)
    model = SmallTransformerForMaskedLM(tiny(tokenizer, "bidirectional")).train()
    together = task.predict(model, tokenizer, "test", rows=[3, 1])
    alone = [*task.predict(model, tokenizer, "test", rows=[3]), *task.predict(model, tokenizer, "test", rows=[1])]
    assert model.training
    assert [token[:2] for token in together] == [token[:2] for token in alone]
    assert [token[2] for token in together] == pytest.approx([token[2] for token in alone], rel=1e-5)
    torch.manual_seed(5)
    assert task.predict(model, tokenizer, "test") == task.predict(model, tokenizer, "test")


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("block_size", [3, 8, 9, 1000])
def test_a_texts_probability_is_the_loop_by_hand(
    tokenizer: PreTrainedTokenizerFast, block_size: int, is_training: bool
) -> None:
    torch.manual_seed(0)
    model = SmallTransformerForCausalLM(tiny(tokenizer, "causal", attention_dropout=0.5)).double()
    texts = [*paragraphs(2), "a", "Two times the cat </s> says <s>"]
    found = log_probabilities(model.train(is_training), tokenizer, texts, block_size)
    assert model.training == is_training
    model.eval()
    for text, log_probability in zip(texts, found, strict=True):
        ids = [tokenizer.bos_token_id, *tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids]
        if "</s>" in text:
            ids = text_ids(tokenizer, text)[:-1]
            assert tokenizer.eos_token_id not in ids
        ids.append(tokenizer.eos_token_id)
        total = 0.0
        for place in range(1, len(ids)):
            # The window that predicts a token is the first one that holds it; they are half a block apart.
            start = next(s for s in range(0, len(ids), block_size // 2) if place < s + block_size)
            logits = model(input_ids=torch.tensor([ids[start:place]])).logits[0, -1]
            total += float(logits.log_softmax(dim=0)[ids[place]].detach())
        assert log_probability == pytest.approx(total, rel=1e-10)


def test_perplexity_is_per_word_and_bits_are_per_byte() -> None:
    texts = ["Möwen  lachen\n", "ja"]  # three words; 15 bytes and 2
    log_probabilities = [-6.0, -1.5]
    perplexity = WordPerplexity().compute(predictions=log_probabilities, references=texts)
    assert perplexity["word_perplexity"] == pytest.approx(math.exp(7.5 / 3))
    bits = BitsPerByte().compute(predictions=log_probabilities, references=texts)
    assert bits["bits_per_byte"] == pytest.approx(7.5 / 17 / math.log(2))
    with pytest.raises(ValueError, match="the references have no words"):
        WordPerplexity().compute(predictions=[-1.0], references=[" "])
    with pytest.raises(ValueError, match="a log-probability is at most 0, got 1"):
        BitsPerByte().compute(predictions=[1.0], references=["a"])


@settings(deadline=None, max_examples=200)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_given_back_by_its_tokens(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(ids, default=0) < len(tokenizer)


def test_what_looks_like_a_special_token_in_a_text_is_text(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = text_ids(tokenizer, "a </s> <mask> b")
    assert [ids.index(tokenizer.bos_token_id), ids.index(tokenizer.eos_token_id)] == [0, len(ids) - 1]
    assert tokenizer.mask_token_id not in ids
    assert tokenizer("the <mask> says")["input_ids"].count(tokenizer.mask_token_id) == 1  # of a user it is one


def test_a_stream_is_trained_on_with_the_same_tokenizer(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "animals.jsonl"
    path.write_text("".join(json.dumps({"story": text}) + "\n" for text in paragraphs()))
    sets = [*SMALL, f"task.data.path={path}", "task.data.text_column=story", "training.max_steps=5"]
    best = (
        train_recipe(f"small_transformer_sotu_{kind}", tmp_path / "run", [*sets, "task.data.streaming=true"]) / "best"
    )
    assert (best / "model.safetensors").is_file()
    make_task(load_recipe(f"small_transformer_sotu_{kind}", sets)).make_tokenizer().save_pretrained(tmp_path / "held")
    assert (best / "tokenizer.json").read_text() == (tmp_path / "held" / "tokenizer.json").read_text()
    with pytest.raises(SystemExit, match="the train split is streamed; to evaluate on it"):
        evaluate.main([str(best), "--split", "train"])


def test_a_corpus_shorter_than_a_block_is_trained_on_as_it_is(kind: str, tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text(f"The {split} split is these ten words and no more.")
    sets = [*SMALL, f"task.data.path={tmp_path}", "task.data.block_size=200", "training.max_steps=2"]
    train_recipe(f"small_transformer_sotu_{kind}", tmp_path / "run", sets)
    assert (tmp_path / "run" / "best" / "README.md").is_file()


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["task.data.vocabulary_size=200"], "vocabulary_size must be at least 260, all bytes and four tokens more"),
        (["task.data.block_size=2"], "block_size must be at least 3, got 2"),
        (
            ["model.position_embedding=learned", "model.max_position_embeddings=31"],
            "block_size=32 is longer than the model's max_position_embeddings=31",
        ),
        (["task.data.vocabulary_size=300", "training.batch_tokens=31"], "has 32 tokens, more than batch_tokens=31"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(
    kind: str, corpus: Path, tmp_path: Path, sets: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        train_recipe(f"small_transformer_sotu_{kind}", tmp_path / "run", [*SMALL, f"task.data.path={corpus}", *sets])
