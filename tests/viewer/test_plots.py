"""Pictures of sentences and heads: what is coloured, and that text is shown as it is. Those of alignments are in
``test_alignment``."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from attnzoo.viewer import overall_attention, plot_alignments, plot_heads, plot_sentence, sentences_html

MATRIX = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.7, 0.2]])
TOKENS = ["<script>alert(1)</script>", "a & b", "$\\frac$"]


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and the text of every span with its style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.open: list[str] = []
        self.spans: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag != "meta":
            self.open.append(tag)
        assert {name for name, _ in attributes} <= {"style", "charset"}  # none that could load or run a thing
        if tag == "span":
            self.spans.append((dict(attributes)["style"] or "", ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "span":
            style, text = self.spans[-1]
            self.spans[-1] = style, text + data


def test_all_hops_together_sum_to_one() -> None:
    torch.testing.assert_close(overall_attention(MATRIX), torch.tensor([0.3, 0.6, 0.1]))
    assert overall_attention(torch.zeros(2, 3)).tolist() == [0, 0, 0]  # a sentence of padding


def test_a_page_shows_every_token_as_it_is_and_as_dark_as_its_weight(tmp_path: Path) -> None:
    text = sentences_html([MATRIX, MATRIX[:, :1]], [TOKENS, ["ü"]], tmp_path / "page.html", titles=["<b>", "good"])
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "b"} & set(page.elements)
    assert "&lt;b&gt;" in text
    assert not re.search(r"https?:|//|url\(|@import", text)
    assert page.elements.count("details") == 2
    assert [token for _, token in page.spans] == TOKENS * 3 + ["ü"] * 3  # all hops, and each of the two
    opacities = [float(style.rpartition(",")[2].rstrip(")")) for style, _ in page.spans]
    assert opacities[:3] == pytest.approx([0.5, 1, 1 / 6], abs=1e-3)
    assert opacities[3:6] == [1, 1, 0]
    assert opacities[6:9] == pytest.approx([1 / 7, 1, 2 / 7], abs=1e-3)


def test_a_figure_has_every_token_once_for_all_hops_and_for_each(tmp_path: Path) -> None:
    figure = plot_sentence(MATRIX, TOKENS, tmp_path / "sentence.png", title="$_$", width=20)
    assert (tmp_path / "sentence.png").read_bytes().startswith(b"\x89PNG")
    axis = figure.axes[0]
    assert axis.get_title() == "$_$"
    texts = [text.get_text() for text in axis.texts]
    assert texts == ["all hops", *TOKENS, "hop 1", *TOKENS, "hop 2", *TOKENS]
    assert [patch.get_alpha() for patch in axis.patches][3:6] == [1, 1, 0]


def test_a_long_sentence_goes_on_in_the_next_line() -> None:
    figure = plot_sentence(torch.full((1, 30), 1 / 30), ["word"] * 30, width=40)
    corners = {patch.get_xy() for patch in figure.axes[0].patches}
    assert len(corners) == 60  # no two tokens in one place
    assert max(x for x, _ in corners) < 40


def test_a_sentence_of_padding_has_no_colour() -> None:
    figure = plot_sentence(torch.zeros(2, 3), TOKENS)
    assert {patch.get_alpha() for patch in figure.axes[0].patches} == {0}
    figure.canvas.draw()


@pytest.mark.parametrize("shape", [(2, 2), (3,), (1, 2, 3)], ids=str)
def test_a_matrix_that_does_not_fit_its_tokens(shape: tuple[int, ...]) -> None:
    for draw in (
        lambda: plot_sentence(torch.zeros(shape), TOKENS),
        lambda: sentences_html([torch.zeros(shape)], [TOKENS]),
    ):
        with pytest.raises(ValueError, match="does not fit 3 tokens") as caught:
            draw()
        assert str(shape) in str(caught.value)


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="no sentences"):
        sentences_html([], [])
    with pytest.raises(ValueError, match="does not fit 0 tokens"):
        plot_sentence(torch.zeros(2, 0), [])
    with pytest.raises(ValueError, match="2 titles do not fit 1 sentences"):
        sentences_html([MATRIX], [TOKENS], titles=["a", "b"])


def test_a_picture_needs_its_own_tokens() -> None:
    with pytest.raises(ValueError, match="got 2, 4 and 2 of them; one picture needs lists of one each"):
        plot_alignments(torch.rand(2, 4), SOURCE, TARGET)


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
        assert image.get_clim() == pytest.approx((0, float(attentions[layer][1, head].max())))  # a scale of its own
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


def test_the_colours_are_perceptually_uniform() -> None:
    """Equal steps in OKLab (Ottosson, 2020), written here a second time, and every step darker than the last."""
    image = plot_alignments([torch.rand(2, 2)], [["a", "b"]], [["c", "d"]]).axes[0].images[0]
    rgb = torch.tensor(image.cmap([n / 32 for n in range(33)]))[:, :3]
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_lms = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_lms.append([0.0883024619, 0.2817188376, 0.6299787005])
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab.append([0.0259040371, 0.7827717662, -0.8086757660])
    lab = ((linear @ torch.tensor(to_lms, dtype=rgb.dtype).T) ** (1 / 3)) @ torch.tensor(to_lab, dtype=rgb.dtype).T
    steps = lab.diff(dim=0).norm(dim=1)
    assert steps.max() / steps.min() < 1.3
    assert (lab[:, 0].diff() < 0).all()


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
