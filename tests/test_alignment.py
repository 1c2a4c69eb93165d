"""Alignments out of generate(), and their picture."""

from types import SimpleNamespace

import pytest
import torch

from attnzoo.alignment import generation_alignments
from attnzoo.plots import plot_alignments


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


@pytest.mark.parametrize("generated", [SimpleNamespace(cross_attentions=None), torch.tensor([[1, 2]])])
def test_a_result_without_attentions_says_how_to_get_them(generated: object) -> None:
    with pytest.raises(ValueError, match="output_attentions=True, return_dict_in_generate=True"):
        generation_alignments(generated)


def test_plot_has_a_name_for_every_row_and_column() -> None:
    figure = plot_alignments([torch.rand(2, 3), torch.rand(1, 1)], [list("abc"), ["d"]], [["X", "Y"], ["Z"]])
    left, right, _ = figure.axes  # the third is the colour bar
    assert [label.get_text() for label in left.get_xticklabels()] == ["a", "b", "c"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["X", "Y"]
    assert [label.get_text() for label in right.get_yticklabels()] == ["Z"]


def test_plot_draws_text_as_it_is() -> None:
    plot_alignments([torch.rand(1, 2)], [["$\\frac$", "<b>"]], [["$_$"]]).canvas.draw()


def test_plot_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\) do not fit 3 target and 2 source tokens"):
        plot_alignments([torch.rand(2, 3)], [["a", "b"]], [["X", "Y", "Z"]])
    with pytest.raises(ValueError, match="no alignments"):
        plot_alignments([], [], [])
