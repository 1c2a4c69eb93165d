"""Pictures of sentences and heads: the colours are those of the weights, and text is shown literally. Those of
alignments are in ``test_alignment``.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import imread

from attnzoo.viewer import overall_attention, plot_alignments, plot_heads, plot_sentence
from attnzoo.viewer.style import DARK, LIGHT, Theme, contrast

MATRIX = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.7, 0.2]])
TOKENS = ["<script>alert(1)</script>", "a & b", "$\\frac$"]


def test_all_hops_together_sum_to_one() -> None:
    torch.testing.assert_close(overall_attention(MATRIX), torch.tensor([0.3, 0.6, 0.1]))
    assert overall_attention(torch.zeros(2, 3)).tolist() == [0, 0, 0]  # a sentence of padding


def test_a_figure_has_every_token_once_for_all_hops_and_for_each(tmp_path: Path) -> None:
    figure = plot_sentence(MATRIX, TOKENS, tmp_path / "sentence.png", title="$_$", width=20)
    assert (tmp_path / "sentence.png").read_bytes().startswith(b"\x89PNG")
    axis = figure.axes[0]
    assert axis.get_title() == "$_$"
    texts = [text.get_text() for text in axis.texts]
    assert texts == ["all hops", *TOKENS, "hop 0", *TOKENS, "hop 1", *TOKENS]
    expected = [*overall_attention(MATRIX), *MATRIX.flatten()]
    for scale, largest in (("common", 1.0), ("map", 0.7)):
        drawn, bar = plot_sentence(MATRIX, TOKENS, scale=scale).axes  # type: ignore[arg-type]
        assert [to_hex(patch.get_facecolor()) for patch in drawn.patches] == [
            LIGHT.of(float(weight) / largest) for weight in expected
        ]
        assert bar.get_xlim() == pytest.approx((0, largest))


def test_a_long_sentence_goes_on_in_the_next_line() -> None:
    figure = plot_sentence(torch.full((1, 30), 1 / 30), ["word"] * 30, width=40)
    corners = {patch.get_xy() for patch in figure.axes[0].patches}
    assert len(corners) == 60  # no two tokens in one place
    assert max(x for x, _ in corners) < 40


def test_a_sentence_of_padding_has_no_colour() -> None:
    figure = plot_sentence(torch.zeros(2, 3), TOKENS)
    assert {to_hex(patch.get_facecolor()) for patch in figure.axes[0].patches} == {LIGHT.weights[0]}
    figure.canvas.draw()


@pytest.mark.parametrize("shape", [(2, 2), (3,), (1, 2, 3)], ids=str)
def test_a_matrix_that_does_not_fit_its_tokens(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit 3 tokens") as caught:
        plot_sentence(torch.zeros(shape), TOKENS)
    assert str(shape) in str(caught.value)


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="does not fit 0 tokens"):
        plot_sentence(torch.zeros(2, 0), [])


def test_a_picture_needs_its_own_tokens() -> None:
    with pytest.raises(ValueError, match="got 2, 4 and 2 of them; one picture needs lists of one each"):
        plot_alignments(torch.rand(2, 4), SOURCE, TARGET)
    with pytest.raises(ValueError, match="picture 1 has 0 target and 4 source tokens"):
        plot_alignments([torch.rand(2, 4), torch.rand(0, 4)], [SOURCE, SOURCE], [TARGET, []])
    with pytest.raises(ValueError, match="columns must be at least 1, got 0"):
        plot_alignments([torch.rand(2, 4)], [SOURCE], [TARGET], columns=0)


SOURCE, TARGET = ["The", "$x$", "<s>", "."], ["Das", "Tier"]


def test_every_head_of_every_layer_is_a_map_named_on_the_outer_ones_alone(tmp_path: Path) -> None:
    attentions = tuple(torch.rand(3, 2, len(TARGET), len(SOURCE)) for _ in range(3))
    figure = plot_heads(attentions, SOURCE, TARGET, tmp_path / "heads.png", row=1)
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    maps = figure.axes[:-1]  # the last one is the scale
    assert len(maps) == 6
    for number, axis in enumerate(maps):
        layer, head = divmod(number, 2)
        (image,) = axis.images
        torch.testing.assert_close(torch.tensor(image.get_array()), attentions[layer][1, head])
        assert image.get_clim() == (0, 1)  # a weight has one colour in all maps
        assert axis.get_title() == (f"head {head}" if layer == 0 else "")
        assert axis.get_ylabel() == (f"layer {layer}" if head == 0 else "")
        assert [label.get_text() for label in axis.get_xticklabels()] == (SOURCE if layer == 0 else [])
        assert [label.get_text() for label in axis.get_yticklabels()] == (TARGET if head == 0 else [])


def test_colours_are_on_a_scale_per_map_or_on_a_common_one() -> None:
    weights = [torch.tensor([[0.5, 0.2]]), torch.tensor([[0.1, 0.0]]), torch.zeros(1, 2)]
    names: tuple[list[list[str]], list[list[str]]] = [["a", "b"]] * 3, [["c"]] * 3
    for scale, largest in (("map", (0.5, 0.1, 1.0)), ("common", (1.0, 1.0, 1.0))):
        for figure in (
            plot_alignments(weights, *names, scale=scale),  # type: ignore[arg-type]
            plot_heads([one[None, None] for one in weights], *(side[0] for side in names), scale=scale),  # type: ignore[arg-type]
        ):
            *maps, bar = figure.axes
            assert [axis.images[0].get_clim()[1] for axis in maps] == pytest.approx(largest)
            assert ("share" in bar.get_ylabel()) == (scale == "map")
            figure.canvas.draw()
    with pytest.raises(ValueError, match="scale must be 'map' or 'common', got 'mine'"):
        plot_alignments(weights, *names, scale="mine")  # type: ignore[arg-type]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_colours_are_perceptually_uniform(theme: Theme) -> None:
    """Equal steps in OKLab (Ottosson, 2020), and every step farther from the paper than the last."""
    rgb = torch.tensor([to_rgb(theme.of(n / 32)) for n in range(33)])
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_lms = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_lms.append([0.0883024619, 0.2817188376, 0.6299787005])
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab.append([0.0259040371, 0.7827717662, -0.8086757660])
    lab = ((linear @ torch.tensor(to_lms, dtype=rgb.dtype).T) ** (1 / 3)) @ torch.tensor(to_lab, dtype=rgb.dtype).T
    steps = lab.diff(dim=0).norm(dim=1)
    assert steps.max() / steps.min() < 1.3
    away = -1 if theme is LIGHT else 1
    assert (away * lab[:, 0].diff() > 0).all()
    assert away * (lab[-1, 0] - lab[0, 0]) > 0.6


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_can_be_read_on_paper_and_on_every_weight(theme: Theme) -> None:
    """The contrast that WCAG 2.2 requires of text, 4.5, or of large text, 3, if a colour is between ink and paper."""
    assert min(contrast(text, theme.paper) for text in (theme.ink, theme.soft, theme.accent)) >= 4.5
    assert min(contrast(theme.text_on(n / 255), theme.of(n / 255)) for n in range(256)) >= 3
    assert (contrast("#000000", "#ffffff"), contrast("#777777", "#777777")) == (21, 1)


def test_pictures_have_the_colours_of_the_style() -> None:
    for figure in (
        plot_alignments([torch.rand(2, 2)], [["a", "b"]], [["c", "d"]]),
        plot_heads([torch.rand(1, 1, 2, 2)], ["a", "b"], ["c", "d"]),
    ):
        colours = figure.axes[0].images[0].cmap
        assert [to_hex(colours(n / 16)) for n in range(17)] == list(LIGHT.weights)
        assert to_hex(figure.get_facecolor()) == LIGHT.paper


@pytest.mark.parametrize("name", ["a", "Donaudampfschifffahrtsgesellschaft", "WWWWWWWWWWWWWWWWWWWW"])
@pytest.mark.parametrize("scale", ["map", "common"])
def test_no_name_of_a_saved_picture_is_cut(name: str, scale: Any, tmp_path: Path) -> None:
    """There is paper all around: no pixel of the border differs from it."""
    few, many = torch.tensor([[0.5]]), torch.full((5, 3), 0.2)
    plot_alignments(
        [few, many], [[name], [name] * 3], [[name], [name] * 5], tmp_path / "1.png", [name] * 2, scale=scale
    )
    plot_alignments([few], [["a"]], [[name]], tmp_path / "2.png", scale=scale)
    plot_heads([few[None, None]] * 2, [name], [name], tmp_path / "3.png", scale=scale)
    plot_sentence(few, [name], tmp_path / "4.png", title=name, scale=scale)
    for number in range(1, 5):
        pixels = (255 * torch.from_numpy(imread(tmp_path / f"{number}.png"))[:, :, :3]).round()
        border = torch.cat([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert (border == 255 * torch.tensor(to_rgb(LIGHT.paper))).all(dim=1).all(), number


def test_all_cells_of_pictures_side_by_side_have_one_size() -> None:
    figure = plot_alignments(
        [torch.rand(2, 3), torch.rand(5, 4), torch.rand(3, 9)],
        [list("abc"), list("abcd"), list("abcdefghi")],
        [list("XY"), list("VWXYZ"), list("XYZ")],
    )
    figure.canvas.draw()
    sizes = [axis.transData.transform([[0, 0], [1, 1]]) for axis in figure.axes[:3]]
    for one in sizes:
        assert abs(one[1] - one[0]) == pytest.approx(abs(sizes[0][1] - sizes[0][0]), rel=0.02)


def test_a_grid_of_heads_takes_layers_of_different_numbers_of_heads() -> None:
    figure = plot_heads([torch.rand(1, heads, 4, 4) for heads in (1, 3)], SOURCE, SOURCE)
    assert len(figure.axes) == 4 + 1


@pytest.mark.parametrize(
    ("attentions", "row", "message"),
    [
        ((), 0, "there are no attentions to plot; call the model with output_attentions=True"),
        ((torch.rand(2, 4),), 0, r"layer 1 has attentions of shape \(2, 4\); it must be \(batch, heads, target"),
        ((torch.rand(1, 2, 2, 4),), 1, r"layer 1 has attentions of shape \(1, 2, 2, 4\); .*, with a row 1"),
        ((torch.rand(1, 2, 2, 4), torch.rand(1, 2, 4, 4)), 0, "layer 2 .* do not fit 2 target and 4 source tokens"),
    ],
)
def test_attentions_that_are_not_of_the_sentence_are_refused(
    attentions: tuple[torch.Tensor, ...], row: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plot_heads(attentions, SOURCE, TARGET, row=row)
