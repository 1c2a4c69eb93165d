"""Alignments out of generate() and of given pairs, as links and as a picture."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerFast

from attnzoo.alignment import (
    align,
    alignment_error_rate,
    forced_decode,
    from_pharaoh,
    generation_alignments,
    links_of,
    paper_shift,
    to_pharaoh,
)
from attnzoo.shipped_models import PRONUNCIATION, TRANSLATION, model_path
from attnzoo.viewer import plot_alignments
from tests.factory import PAD, RNN_VARIANTS, padded_batch, tiny_config, tiny_model, words
from tests.reference import attentional_rnn as reference

WITH_ATTENTION = [name for name in RNN_VARIANTS if tiny_config(name).score != "none"]
WITHOUT_ATTENTION = [name for name in RNN_VARIANTS if tiny_config(name).score == "none"]


def test_beams_are_followed_back_by_hand() -> None:
    # Two steps, two beams, two source tokens. The sequence returned was on beam 1 at step 0 and on beam 0 at step 1.
    first = torch.tensor([[[[1.0, 0.0]]], [[[0.25, 0.75]]]])  # (2, 1, 1, 2)
    second = torch.tensor([[[[0.5, 0.5]]], [[[0.0, 1.0]]]])
    beams = torch.tensor([[1, 0]])
    generated = SimpleNamespace(cross_attentions=((first,), (second,)), beam_indices=beams)
    torch.testing.assert_close(generation_alignments(generated), torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]))


def test_without_beams_the_steps_are_stacked() -> None:
    # Without a cache a step also looks back at the steps before it: its own row is the last.
    first, second = torch.rand(3, 1, 1, 4), torch.rand(3, 1, 2, 4)
    generated = SimpleNamespace(cross_attentions=((first,), (second,)))
    expected = torch.stack([first[:, 0, 0], second[:, 0, 1]], dim=1)
    assert torch.equal(generation_alignments(generated), expected)


# Forced decoding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_forced_decoding_equals_the_loop(variant: str) -> None:
    model = tiny_model(variant)
    source, mask = padded_batch([5, 3, 7], "left")
    labels = words(3, 4, seed=1)
    labels[1, 2:] = -100
    decoded = forced_decode(model, source, labels, mask)
    read = [reference.shift_right(row, model.config.decoder_start_token_id, PAD) for row in labels.tolist()]
    expected = reference.translate(model, source, mask, torch.tensor(read))
    for row, step in torch.cartesian_prod(torch.arange(3), torch.arange(4)).tolist():
        if labels[row, step] == -100:
            assert decoded.token_log_probabilities[row, step] == 0
            continue
        probabilities = torch.exp(expected.logits[row, step])
        probability = probabilities[labels[row, step]] / probabilities.sum()
        torch.testing.assert_close(decoded.token_log_probabilities[row, step], probability.log())
    torch.testing.assert_close(decoded.scores, decoded.token_log_probabilities.sum(dim=1))
    if variant in WITH_ATTENTION:
        torch.testing.assert_close(decoded.alignments, expected.alignments)
    else:
        assert decoded.alignments is None


def test_forced_decoding_has_no_dropout_and_leaves_the_mode_as_it_was() -> None:
    model = tiny_model("luong-lstm-dot", dropout=0.5)
    source, labels = words(2, 3), words(2, 4, seed=1)
    expected = forced_decode(model, source, labels).scores
    model.train()
    torch.testing.assert_close(forced_decode(model, source, labels).scores, expected)
    assert model.training
    model.get_encoder().eval()  # a part that was frozen stays so
    forced_decode(model, source, labels)
    assert model.training
    assert not model.get_encoder().training


# Aligning pairs -------------------------------------------------------------------------------------------------------


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Words are separated by spaces and consist of one-letter tokens "a" (3) to "j" (12); other letters are dropped."""
    letters = {letter: index for index, letter in enumerate("abcdefghij", start=3)}
    tokenizer = Tokenizer(models.BPE({"<pad>": 0, "<s>": 1, "</s>": 2, **letters}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


SOURCES, TARGETS = ["ab c", "jih gf e d", "a"], ["c ab de", "hh", "abc j"]


def letters_of(text: str) -> list[int]:
    return [ord(letter) - ord("a") + 3 for letter in text if letter != " "]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("variant", WITH_ATTENTION)
def test_pairs_are_aligned_word_by_word(variant: str, shift: int) -> None:
    """Compared with forced decoding of one pair at a time, whose tokens are joined to words by hand."""
    model = tiny_model(variant, max_source_positions=12)
    pairs = align(model, word_tokenizer(), SOURCES, TARGETS, batch_size=2, shift=shift)
    for source, target, pair in zip(SOURCES, TARGETS, pairs, strict=True):
        labels = torch.tensor([[*letters_of(target), 2]])
        decoded = forced_decode(model, torch.tensor([[*letters_of(source), 2]]), labels)
        assert (pair.source_words, pair.target_words) == (source.split(), target.split())
        assert pair.score == pytest.approx(float(decoded.scores[0]))
        row = 0
        for t, target_word in enumerate(target.split()):
            rows = [decoded.alignments[0, row + letter + shift] for letter in range(len(target_word))]
            row += len(target_word)
            weights, column = [], 0
            for source_word in source.split():
                weights.append(sum(r[column : column + len(source_word)].sum() for r in rows) / len(rows))
                column += len(source_word)
            torch.testing.assert_close(pair.weights[t], torch.stack(weights))
            if max(weights) > 0:
                assert (max(range(len(weights)), key=lambda s: weights[s]), t) in pair.links
        assert len(pair.links) <= len(pair.target_words)


def test_pairs_given_as_words_keep_their_words() -> None:
    model, tokenizer = tiny_model("luong-lstm-dot"), word_tokenizer()
    as_text = align(model, tokenizer, SOURCES, TARGETS)
    as_words = align(model, tokenizer, [s.split() for s in SOURCES], [t.split() for t in TARGETS])
    for one, other in zip(as_text, as_words, strict=True):
        assert one.target_words == other.target_words
        assert one.links == other.links


def test_words_are_those_of_the_text_and_not_of_the_tokenizer() -> None:
    """With uppercase letters, with characters that have no token, and without the mark of a word's start."""
    folder = model_path(TRANSLATION)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    (pair,) = align(model, tokenizer, ["Two dogs eat 寿司."], ["Zwei Hunde essen."])
    assert pair.source_words == ["Two", "dogs", "eat", "寿司", "."]
    assert pair.target_words == ["Zwei", "Hunde", "essen", "."]


def test_phonemes_have_no_brackets_however_they_are_given() -> None:
    folder = model_path(PRONUNCIATION)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    for source, target in (("cat", "K AE1 T"), (["c", "a", "t"], ["K", "AE1", "T"])):
        (pair,) = align(model, tokenizer, [source], [target])
        assert (pair.source_words, pair.target_words) == (["c", "a", "t"], ["K", "AE1", "T"])


def test_the_papers_shift_is_a_word_away() -> None:
    model, tokenizer = tiny_model("luong-lstm-dot"), word_tokenizer()
    assert paper_shift(model.config) == 1
    by_name, by_number = (align(model, tokenizer, SOURCES, TARGETS, shift=shift) for shift in ("paper", 1))
    assert [pair.links for pair in by_name] == [pair.links for pair in by_number]


def test_words_past_the_last_step_have_no_links() -> None:
    """A shift of 2 leaves the last word of one token without a row: the decoder stops before."""
    (pair,) = align(tiny_model("luong-lstm-dot"), word_tokenizer(), ["a b"], ["c d"], shift=2)
    assert pair.weights[1].isnan().all()
    assert {target for _, target in pair.links} == {0}


@pytest.mark.parametrize(
    ("fields", "shift"),
    [
        ({"wiring": "bahdanau"}, 0),
        ({"wiring": "luong", "score": "general"}, 1),
        ({"wiring": "luong", "score": "concat", "window": "predictive", "input_feeding": True}, 1),
        ({"wiring": "luong", "score": "location"}, 0),
    ],
    ids=str,
)
def test_luongs_footnote_shifts_content_scores(fields: dict[str, object], shift: int) -> None:
    """Bahdanau's query has not read y_{i-1} yet; Luong's has (footnote 14)."""
    assert paper_shift(tiny_config("luong-lstm-dot", **fields)) == shift


@pytest.mark.parametrize("variant", WITHOUT_ATTENTION)
def test_a_model_without_attention_cannot_align(variant: str) -> None:
    with pytest.raises(ValueError, match="no attention"):
        align(tiny_model(variant), word_tokenizer(), ["a"], ["b"])


@pytest.mark.parametrize(
    ("sources", "targets", "options", "message"),
    [
        (["a", "b"], ["c"], {}, "2 sources and 1 targets"),
        (["a", " "], ["c", "d"], {}, "source 1 is empty"),
        (["a", "b"], ["c", ""], {}, "target 1 is empty"),
        ([["a"]], [[]], {}, "target 0 is empty"),
        ([["a", "b"]], [["c", "\u200b"]], {}, "target 0, .* has words for which the tokenizer has no token"),
        ([["a", ""]], [["c"]], {}, "source 0, .* has words for which the tokenizer has no token"),
        (["a", "b"], ["c", "x"], {}, "target 1, 'x', has words for which the tokenizer has no token"),
        (["a", ["a"]], ["c", "d"], {}, "sources must be a list of texts, or a list of lists of words"),
        ("ab", ["c", "d"], {}, "sources must be a list of texts"),
        (["a"], ["c"], {"shift": -1}, "shift must be 'paper', or 0 or more steps, got -1"),
        (["a"], ["c"], {"shift": "papers"}, "got 'papers'"),
        *((["a"], ["c"], {"batch_size": size}, f"batch_size must be a whole number .* {size}") for size in (0, 1.5)),
        (["a"], ["c"], {"layer": "last"}, "layer must be 0 to 0, the decoder's layers, got 'last'"),
        (["a"], ["c"], {"head": "first"}, "head must be 0 to 0, the layer's heads, or None, got 'first'"),
        (["a"], ["c"], {"heads": []}, r"heads must be one or more pairs \(layer, head\), .* got \[\]"),
        (["a"], ["c"], {"heads": (0, 1)}, r"heads must be one or more pairs \(layer, head\), .* got \(0, 1\)"),
        (["a"], ["c"], {"heads": 0}, r"heads must be one or more pairs \(layer, head\), .* got 0"),
    ],
)
def test_pairs_that_cannot_be_aligned_are_refused(
    sources: list[str], targets: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        align(tiny_model("luong-lstm-dot"), word_tokenizer(), sources, targets, **options)


def test_a_text_is_never_too_long_for_sinusoids() -> None:
    """Whatever else is wrong with the call is said."""
    model = tiny_model("encoder_decoder-post-sinusoidal")
    text = " ".join(["a"] * (model.config.max_position_embeddings + 1))
    assert align(model, word_tokenizer(), [text], ["c"])
    with pytest.raises(ValueError, match="layer must be 0 to 1"):
        align(model, word_tokenizer(), [text], ["c"], layer=9)


# Links, Pharaoh format, AER -------------------------------------------------------------------------------------------


def test_links_take_the_highest_weight_of_every_target_word() -> None:
    weights = torch.tensor([[0.2, 0.7, 0.1], [0.0, 0.0, 0.0], [math.nan] * 3, [0.1, 0.1, 0.3]])
    assert links_of(weights) == {(1, 0), (2, 3)}
    assert links_of(torch.zeros(2, 0)) == set()


def test_pharaoh_format_goes_there_and_back() -> None:
    links = {(10, 2), (0, 0), (2, 10)}
    assert to_pharaoh(links) == "0-0 2-10 10-2"
    assert from_pharaoh(to_pharaoh(links)) == (links, links)
    assert from_pharaoh("0-0 3p4 5?6") == ({(0, 0)}, {(0, 0), (3, 4), (5, 6)})
    assert from_pharaoh("") == (set(), set())
    assert to_pharaoh([]) == ""


@pytest.mark.parametrize("line", ["0-0 1", "1-", "-1", "a-b", "1-2-3", "0x1"])
def test_what_is_no_link_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a link"):
        from_pharaoh(line)


def test_alignment_error_rate_by_hand() -> None:
    # A = 4 links, S = 3, all of S possible and 1 more. A & S = 2, A & P = 3: 1 - (2 + 3) / (4 + 3).
    predicted = [{(0, 0), (1, 1)}, {(0, 0), (2, 2)}]
    sure = [{(0, 0)}, {(0, 0), (1, 1)}]
    possible = [{(1, 1)}, set()]  # sure links count as possible, repeated or not
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - 5 / 7)
    assert alignment_error_rate(sure, sure) == 0
    assert alignment_error_rate([{(5, 5)}], [{(0, 0)}]) == 1
    assert alignment_error_rate([{(0, 0)}, set()], [{(0, 0)}, set()]) == 0  # a sentence without links is no error
    # Predicting nothing but possible links is wrong only in what it leaves out: A & S = 0, A & P = 1.
    assert alignment_error_rate([{(1, 1)}], [{(0, 0)}], [{(1, 1)}]) == pytest.approx(1 - 1 / 2)


def test_an_error_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="not a single link"):
        alignment_error_rate([set()], [set()])
    with pytest.raises(ValueError, match="1 predicted, 2 sure and 2 possible"):
        alignment_error_rate([set()], [set(), set()])


# The picture ----------------------------------------------------------------------------------------------------------


def test_plot_has_a_name_for_every_row_and_column() -> None:
    figure = plot_alignments([torch.rand(2, 3), torch.rand(1, 1)], [list("abc"), ["d"]], [["X", "Y"], ["Z"]])
    left, right, _ = figure.axes  # the third is the colour bar
    assert [label.get_text() for label in left.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["X", "Y"]
    assert [label.get_text() for label in right.get_yticklabels()] == ["Z"]


def test_plot_draws_text_as_it_is() -> None:
    plot_alignments([torch.rand(1, 2)], [["$\\frac$", "<b>"]], [["$_$"]]).canvas.draw()


def test_plot_has_titles_and_columns() -> None:
    weights: list[Tensor] = [torch.rand(1, 2)] * 4
    figure = plot_alignments(weights, [["a", "b"]] * 4, [["X"]] * 4, titles=["p", "$_$", "r", "s"], columns=3)
    assert [axis.get_title("left") for axis in figure.axes[:4]] == ["p", "$_$", "r", "s"]
    assert len({axis.get_subplotspec().colspan.start for axis in figure.axes[:4]}) == 3
    figure.canvas.draw()


def test_plot_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="1 titles do not fit 2 pictures"):
        plot_alignments([torch.rand(1, 1)] * 2, [["a"]] * 2, [["X"]] * 2, titles=["p"])
    with pytest.raises(ValueError, match=r"shape \(2, 3\) do not fit 3 target and 2 source tokens"):
        plot_alignments([torch.rand(2, 3)], [["a", "b"]], [["X", "Y", "Z"]])
    with pytest.raises(ValueError, match="no alignments"):
        plot_alignments([], [], [])


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 1), (1, None)])
def test_of_a_transformer_a_head_of_a_layer_is_read_or_the_mean_of_its_heads(layer: int, head: int | None) -> None:
    model = tiny_model("encoder_decoder-post-sinusoidal")
    source, labels = words(2, 5), words(2, 4, seed=1)
    decoded = forced_decode(model, source, labels, layer=layer, head=head)
    outputs = model(input_ids=source, labels=labels, output_attentions=True)
    of_layer = outputs.cross_attentions[layer]
    expected = (of_layer[:, 0] + of_layer[:, 1]) / 2 if head is None else of_layer[:, head]
    torch.testing.assert_close(decoded.alignments, expected)


def test_a_layer_or_head_that_is_not_there_is_refused() -> None:
    model = tiny_model("luong-lstm-dot")
    with pytest.raises(ValueError, match="layer must be 0 to 0, the decoder's layers, got 1"):
        forced_decode(model, words(1, 3), words(1, 2), layer=1)
    with pytest.raises(ValueError, match="head must be 0 to 0, the layer's heads, or None, got -1"):
        forced_decode(model, words(1, 3), words(1, 2), head=-1)
