"""Guided alignment: the loss compared with a loop, links of words as links of tokens, and a head that learns links."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attnzoo.training.loop.guided_alignment import LINKS, GuidedAlignment, alignment_cross_entropy
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.tasks.summarization import Summarization, SummaryData
from attnzoo.training.tasks.translation import Translation, TranslationData
from attnzoo.training.train import main
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo.alignment import align, alignment_error_rate, to_pharaoh
from tests.aligning.toy_language import corpus
from tests.regular_language import SMALL
from tests.training.runs import command_line, overrides

COUNT = 300
SIZES = {
    "attentional_rnn_bible": overrides(
        "model", embedding_size=16, encoder_hidden_size=16, decoder_hidden_size=32, readout_size=16, dropout=0.0
    ),
    "small_transformer_bible": overrides("model", hidden_size=32, intermediate_size=32, dropout=0.0),
}


def by_loops(weights: Tensor, links: Tensor, count: int) -> Tensor:
    """Garg et al. (2019), equation 5, with our divisor."""
    total = weights.new_zeros(())
    for row in range(weights.shape[0]):
        for step in range(weights.shape[1]):
            linked = [place for place in range(weights.shape[2]) if links[row, step, place]]
            for place in linked:
                total = total - weights[row, step, place].log() / len(linked)
    return total / count


def test_the_loss_and_its_gradient_equal_the_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)
    links = torch.rand(3, 4, 5, generator=generator) < 0.4
    links[0, 1] = False  # a token without a link
    links[2] = False  # a target without links
    found = []
    for function in (alignment_cross_entropy, by_loops):
        given = scores.clone().requires_grad_()
        loss = function(given.softmax(dim=-1), links, 7)
        loss.backward()
        found.append((loss.detach(), given.grad))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=0)
    assert float(alignment_cross_entropy(torch.zeros(1, 1, 2), torch.ones(1, 1, 2).bool(), 1)) < math.inf


@pytest.mark.parametrize("shift", [0, 1])
def test_a_step_learns_the_links_of_the_token_that_it_predicts_or_reads(shift: int, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("")
    guide = GuidedAlignment(str(tmp_path / "links"), 0.5, 1, 2, shift)
    weights = torch.rand(2, 4, 3, 5, dtype=torch.float64).softmax(dim=-1)
    links = torch.rand(2, 3, 5) < 0.5
    outputs = SimpleNamespace(cross_attentions=(torch.zeros_like(weights), weights))
    expected = sum(
        by_loops(weights[:, 2, step : step + 1], links[:, step - shift : step - shift + 1], 9)
        for step in range(shift, 3)
    )
    torch.testing.assert_close(guide.loss(outputs, {LINKS: links}, 9), 0.5 * expected)
    guide.head = 4
    with pytest.raises(ValueError, match=r"alignment_layer is 0 to 1 and training\.alignment_head 0 to 3, got 1 and 4"):
        guide.loss(outputs, {LINKS: links}, 9)
    with pytest.raises(ValueError, match="needs a model with attention"):
        guide.loss(SimpleNamespace(cross_attentions=None), {LINKS: links}, 9)


def translation(tmp_path: Path, sources: list[str], targets: list[str]) -> Path:
    for split, number in (("train", len(sources)), ("validation", 20), ("test", 20)):
        rows = (f"{source}\t{target}\n" for source, target in zip(sources[:number], targets[:number], strict=True))
        (tmp_path / f"{split}.tsv").write_text("source\ttarget\n" + "".join(rows))
    return tmp_path


def test_every_subword_has_the_links_of_its_word(tmp_path: Path) -> None:
    sources, targets = ["  The cats' café, now ", "αβγ"], ["Das Café der Katzen.  Nun", "x"]
    task = Translation(TranslationData(path=str(translation(tmp_path, sources, targets)), vocabulary_size=60))
    tokenizer = task.make_tokenizer()
    examples = task.training_examples(tokenizer)
    (tmp_path / "links").write_text("0-0 1-2 1-3 2-1 3-4\n\n")
    guide = GuidedAlignment(str(tmp_path / "links"), 0.5, -1, 0, 0)
    linked = guide.add_links(examples, task, tokenizer)
    row = linked[0]
    tokens = [tokenizer.convert_ids_to_tokens(row[name]) for name in ("input_ids", "labels")]

    def text_of(side: int, other: int, place: int) -> str:
        """The tokens that are linked with one token, as text."""
        linked_with = sorted({pair[side] for pair in row[LINKS] if pair[other] == place})
        return "".join(tokens[side][n] for n in linked_with).replace("\u2581", " ").strip()

    for place, token in enumerate(tokens[0][:-1]):
        expected = {"The": "Das", "cats'": "der Katzen.", "café,": "Café", "now": "Nun"}
        before = "".join(tokens[0][: place + 1]).replace("\u2581", " ").split()[-1]
        word = next(word for word in sources[0].split() if word.startswith(before))
        assert text_of(1, 0, place) == expected[word], token
    assert not [pair for pair in row[LINKS] if pair[0] == len(tokens[0]) - 1]  # the end
    assert linked[1][LINKS] == []
    batch = guide.collator(task.collator(tokenizer, None))([linked[1], linked[0]])  # type: ignore[arg-type]
    assert batch[LINKS].shape == (2, batch["labels"].shape[1], batch["input_ids"].shape[1])
    assert sorted(map(list, batch[LINKS][1].nonzero().tolist())) == sorted([t, s] for s, t in row[LINKS])
    for line, said in (("9-0", "line 1 .* has the link 9-0, but source and target have 4 and 5 words"), ("x", "not a")):
        (tmp_path / "links").write_text(f"{line}\n\n")
        with pytest.raises(ValueError, match=said):
            guide.add_links(examples, task, tokenizer)
    (tmp_path / "links").write_text("0-0\n")
    with pytest.raises(ValueError, match="has 1 lines, and there are 2 training examples"):
        guide.add_links(examples, task, tokenizer)


def test_a_source_that_is_cut_keeps_the_links_of_its_beginning(tmp_path: Path) -> None:
    data = translation(tmp_path, ["a b c d"] * 2, ["x y"] * 2)
    columns: dict[str, Any] = {"source_column": "source", "target_column": "target"}
    task = Summarization(SummaryData(path=str(data), vocabulary_size=20, max_source_tokens=3, **columns))
    tokenizer = task.make_tokenizer()
    examples = task.training_examples(tokenizer)
    assert [len(ids) for ids in examples["input_ids"]] == [3, 3]  # a, b and the end
    (tmp_path / "links").write_text("0-0 1-1 2-0 3-1\n\n")
    guide = GuidedAlignment(str(tmp_path / "links"), 0.5, -1, 0, 0)
    linked = guide.add_links(examples, task, tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(linked[0]["input_ids"])
    assert {tokens[source].strip("\u2581") for source, _ in linked[0][LINKS]} == {"a", "b"}
    batch = guide.collator(task.collator(tokenizer, None))([linked[0]])  # type: ignore[arg-type]
    assert not batch[LINKS][0, :, -1].any()


def test_letters_and_phonemes_are_words(dictionary: Path, tmp_path: Path) -> None:
    task = GraphemeToPhoneme(str(dictionary))
    tokenizer = task.make_tokenizer()
    examples = task.training_examples(tokenizer)
    (tmp_path / "links").write_text("0-0 1-1\n" * len(examples))
    guide = GuidedAlignment(str(tmp_path / "links"), 0.5, -1, 0, 0)
    assert guide.add_links(examples, task, tokenizer)[0][LINKS] == [[0, 0], [1, 1]]


@pytest.mark.parametrize("recipe", SIZES)
def test_the_head_learns_links_that_translation_would_not_teach(recipe: str, tmp_path: Path) -> None:
    """All links point to the first source word, which the translation would not teach."""
    sources, targets, _ = corpus(COUNT, seed=1)
    links = [{(0, place) for place in range(len(target))} for target in targets]
    data = translation(tmp_path, list(map(" ".join, sources)), list(map(" ".join, targets)))
    (tmp_path / "links").write_text("".join(f"{to_pharaoh(pair)}\n" for pair in links))
    sets = [
        *SIZES[recipe],
        *overrides("task.data", path=str(data), vocabulary_size=90, source_column="source", target_column="target"),
    ]
    settings = {"max_steps": 60, "evaluations": 1, "batch_tokens": 300, "learning_rate": 1e-2, "warmup_steps": 10}
    sets += overrides("training", **settings, precision="fp32", alignment_links=str(tmp_path / "links"))
    sets += overrides("training", alignment_weight=2.0, alignment_head=0, alignment_layer=-1)
    main(command_line(recipe, tmp_path / "run", sets))
    best = tmp_path / "run" / "best"
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(best), AutoTokenizer.from_pretrained(best)
    pairs = align(model, tokenizer, sources[:50], targets[:50], layer=-1, head=0)
    assert alignment_error_rate([pair.links for pair in pairs], links[:50]) < 0.05
    assert str(tmp_path) not in (best / "recipe.yaml").read_text()


def test_what_cannot_be_guided_is_refused(dictionary: Path, reviews: Path, tmp_path: Path) -> None:
    data = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=1"]

    def refuse(recipe: str, said: str, *sets: Any) -> None:
        with pytest.raises(SystemExit, match=said):
            main(command_line(recipe, tmp_path / "run", [*sets], "--overwrite"))

    refuse("demo", "there is no file 'nowhere'", *data, *overrides("training", alignment_links="nowhere"))
    refuse("demo", "alignment_weight must be above 0, got 0", *data, *overrides("training", alignment_weight=0))
    refuse("demo", "alignment_head must not be negative", *data, *overrides("training", alignment_head=-1))
    (tmp_path / "links").write_text("0-0\n")
    columns = overrides("task.data", path=str(reviews), text_column="review", label_column="verdict", label_names=None)
    links = overrides("training", alignment_links=str(tmp_path / "links"), max_steps=1)
    refuse("self_attentive_sst2", "is for encoder-decoders", *columns, *links)
