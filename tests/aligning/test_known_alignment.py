"""Models trained on a language with a known alignment: their attention finds it, with an AER of at most 0.05."""

from typing import Any

import pytest
import torch

from attnzoo import transfer_markup
from attnzoo.aligning import METHODS, align_both_ways, choose_heads, choose_heads_by_agreement
from attnzoo.alignment import Links, align, align_stream, alignment_error_rate, forced_decode
from tests.aligning.toy_language import TARGET_WORDS, WORDS, corpus, model, tokenizer, train

# T5 learns slowly, and Marian's model is Bart's with other positions.
LEARNERS = ["rnn", "small", "bart", *(pytest.param(name, marks=pytest.mark.slow) for name in ("marian", "t5"))]
trained: dict[str, tuple[Any, dict[str, Any]]] = {}


def aligner(name: str) -> tuple[Any, dict[str, Any]]:
    """A trained model and the heads for its alignment, chosen on sentences that are in neither training nor test."""
    if name not in trained:
        learned = train(name.removesuffix("-back"), is_reversed=name.endswith("-back"))
        sources, targets, links = corpus(60, seed=1)
        if name.endswith("-back"):
            sources, targets, links = targets, sources, [{(s, t) for t, s in of_pair} for of_pair in links]
        trained[name] = learned, choose_heads(learned, tokenizer(), sources, targets, links).options
    return trained[name]


@pytest.mark.parametrize("name", LEARNERS)
def test_the_known_alignment_is_found(name: str) -> None:
    learned, options = aligner(name)
    sources, targets, links = corpus(200, seed=2)
    pairs = align(learned, tokenizer(), sources, targets, **options)
    assert alignment_error_rate([pair.links for pair in pairs], links) <= 0.05
    assert [pair.source_words for pair in pairs] == sources
    assert [pair.target_words for pair in pairs] == targets


def test_two_directions_agree_and_every_method_finds_the_alignment() -> None:
    (forward, options), (backward, back_options) = aligner("bart"), aligner("bart-back")
    sources, targets, links = corpus(100, seed=3)
    pairs = list(zip(map(" ".join, sources), targets, strict=True))  # texts are split at white space
    for method in METHODS:
        found = list(
            align_both_ways((forward, tokenizer()), (backward, tokenizer()), pairs, method, options, back_options)
        )
        assert alignment_error_rate(found, links) <= 0.05
    first, second = choose_heads_by_agreement(
        (forward, tokenizer()), (backward, tokenizer()), sources[:30], targets[:30]
    )
    assert first.error_rate == second.error_rate
    assert all(head is None for _, head in (*first.heads, *second.heads))


def test_markup_goes_to_the_translated_word_and_not_to_its_neighbour() -> None:
    learned, options = aligner("small")

    def links_of_words(source: list[str], target: list[str]) -> Links:
        return align(learned, tokenizer(), [source], [target], **options)[0].links

    sources, targets, links = corpus(40, seed=4)
    right = 0
    for source, target, of_pair in zip(sources, targets, links, strict=True):
        for marked, expected in of_pair:
            words = [f"<b>{word}</b>" if place == marked else word for place, word in enumerate(source)]
            wanted = [f"<b>{word}</b>" if place == expected else word for place, word in enumerate(target)]
            right += transfer_markup(" ".join(words), " ".join(target), links_of_words) == " ".join(wanted)
    assert right / sum(map(len, links)) >= 0.95


def test_a_stream_equals_a_list_and_reads_no_further_than_it_needs() -> None:
    """Pairs of any length come back in order with any batches; an untrained model is enough for this."""
    untrained = model("bart").eval()
    sources, targets, _ = corpus(50, seed=5)
    expected = [align(untrained, tokenizer(), [s], [t])[0] for s, t in zip(sources, targets, strict=True)]
    read = []

    def pairs() -> Any:
        for number, pair in enumerate(zip(sources, targets, strict=True)):
            read.append(number)
            yield pair

    found = align_stream(untrained, tokenizer(), pairs(), batch_size=2)
    first = next(found)
    assert len(read) == 32  # 16 batches
    for one, other in zip([first, *found], expected, strict=True):
        assert (one.source_words, one.target_words) == (other.source_words, other.target_words)
        assert one.score == pytest.approx(other.score, abs=1e-4)
        torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=0)


def test_labels_may_be_of_32_bits_and_padding_has_no_part_in_the_score() -> None:
    ours = model("small").eval()
    ids = tokenizer()([" ".join(WORDS[:5])], return_tensors="pt")["input_ids"]
    labels = tokenizer()([" ".join(TARGET_WORDS[:4])], return_tensors="pt")["input_ids"]
    padded = torch.nn.functional.pad(labels, (0, 2), value=-100)
    expected, found = forced_decode(ours, ids, labels), forced_decode(ours, ids, padded.int())
    torch.testing.assert_close(found.scores, expected.scores)
    assert found[0][:, -2:].tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("name", ["small", "bart", "marian", "t5"])
def test_several_heads_are_read_as_their_mean(name: str) -> None:
    untrained = model(name).eval()
    batch = tokenizer()([" ".join(WORDS[:5])], return_tensors="pt")
    labels = tokenizer()([" ".join(TARGET_WORDS[:4])], return_tensors="pt")["input_ids"]
    mask = batch["attention_mask"]
    heads = [(0, 1), (-1, None), (-1, 3)]  # one model has a single layer
    found = forced_decode(untrained, batch["input_ids"], labels, mask, heads=heads)
    single = [forced_decode(untrained, batch["input_ids"], labels, mask, layer=n, head=h) for n, h in heads]
    alignments = [one.alignments for one in single if one.alignments is not None]
    torch.testing.assert_close(found.alignments, torch.stack(alignments).mean(dim=0))
    untrained.set_attn_implementation("eager")
    outputs = untrained(input_ids=batch["input_ids"], attention_mask=mask, labels=labels, output_attentions=True)
    torch.testing.assert_close(alignments[0], outputs.cross_attentions[0][:, 1], atol=1e-5, rtol=0)
    expected = -outputs.loss * labels.shape[1]
    torch.testing.assert_close(found.scores[0], expected.detach(), atol=1e-4, rtol=1e-4)


class SlowTokenizer:
    """The same tokens without a fast tokenizer: no ``word_ids``."""

    is_fast = False
    get_added_vocab = staticmethod(dict)

    def __call__(self, text: Any = None, text_target: Any = None, add_special_tokens: bool = True) -> Any:
        words = (text if text_target is None else text_target).split()
        ids = [WORDS_AND_TARGETS.index(word) + 3 for word in words if word in WORDS_AND_TARGETS]
        return {"input_ids": ids + [2] * add_special_tokens}


WORDS_AND_TARGETS = [*WORDS, *TARGET_WORDS]


def test_a_slow_tokenizer_gives_the_same_alignments() -> None:
    untrained = model("marian").eval()
    sources, targets, _ = corpus(10, seed=6)
    for texts in ((sources, targets), (list(map(" ".join, sources)), list(map(" ".join, targets)))):
        slow = align(untrained, SlowTokenizer(), *texts)
        for one, other in zip(slow, align(untrained, tokenizer(), *texts), strict=True):
            assert (one.source_words, one.links) == (other.source_words, other.links)
            assert one.score == pytest.approx(other.score)
    with pytest.raises(ValueError, match=r"source 0, .* has words for which the tokenizer has no token"):
        align(untrained, SlowTokenizer(), ["noun1 nothing"], ["noun1-x"])


def test_gold_links_are_counted_before_anything_is_computed() -> None:
    with pytest.raises(ValueError, match="got 2 sources and links of 1"):
        choose_heads(None, None, ["a", "b"], ["c", "d"], [set()])
