"""The interactive page in headless Chromium: what is drawn equals the weights, and text stays text.

Run with ``make test-page``; needs Chromium.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnzoo.viewer import AttentionMaps, AttentionView
from attnzoo.viewer.attention_view import Tokens
from tests.chromium import Browser

pytestmark = pytest.mark.browser
READY = "document.documentElement.dataset.state"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def random_weights(heads: int, rows: int, columns: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(heads, rows, columns, generator=generator)).softmax(dim=-1)


def tokens(names: list[str], words: list[int] | None = None) -> Tokens:
    return Tokens([], names, words or list(range(len(names))))


def view_of(kind: str, target: Tokens, source: Tokens, weights: dict[int, Tensor]) -> AttentionView:
    return AttentionView(" ".join(source.names), "Model", {kind: AttentionMaps(target, source, weights)})


SOURCE = tokens(["The", "un", "believ", "able", "cat", "."], [0, 1, 1, 1, 2, 3])
TARGET = tokens(["Die", "Kat", "ze", "!"], [0, 1, 1, 2])
WEIGHTS = {0: random_weights(3, 4, 6), 2: 0.4 * random_weights(3, 4, 6, seed=1)}


def levels(browser: Browser, selector: str) -> Tensor:
    """What is drawn, as shares of the scale: by the legend, which has every colour once."""
    legend = [tuple(rgb) for rgb in browser.pixels("#legend")]
    assert len(set(legend)) == 256
    return torch.tensor([legend.index(tuple(rgb)) / 255 for rgb in browser.pixels(selector)])


def open_cross(browser: Browser, folder: Path) -> AttentionView:
    made = view_of("cross", TARGET, SOURCE, WEIGHTS)
    browser.open(made.save(folder / "page.html"), READY)
    return made


def test_every_head_is_drawn_as_its_weights_on_its_own_scale_and_on_a_common_one(
    browser: Browser, tmp_path: Path
) -> None:
    open_cross(browser, tmp_path)
    step = 1 / 255 + 1e-6
    common = max(float(w.max()) for w in WEIGHTS.values())
    for switch in (False, True):
        if switch:
            browser.evaluate("document.getElementById('common').click()")
        for place, (number, of_layer) in enumerate(WEIGHTS.items()):
            for head, expected in enumerate(of_layer):
                button = f"#grid button[data-layer='{place}'][data-head='{head}']"
                browser.evaluate(f'document.querySelector("{button}").click()')
                browser.wait(f"document.getElementById('detail').dataset.drawn === 'cross {number} {head}'")
                browser.evaluate("new Promise(done => setTimeout(done, 100))")
                scale = common if switch else float(expected.max())
                for canvas in (f"{button} canvas", "#map"):
                    drawn = levels(browser, canvas).view(4, 6)
                    torch.testing.assert_close(drawn, expected / scale, atol=1.5 * step, rtol=0)
                assert browser.evaluate("document.getElementById('largest').textContent") == f"{scale:.2f}"
    assert browser.errors == []


def test_the_colours_are_perceptually_uniform_in_both_themes(browser: Browser, tmp_path: Path) -> None:
    """Against Ottosson's OKLab, written again here: equal steps, and a lightness that goes one way."""
    open_cross(browser, tmp_path)
    to_lms = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    to_lms.append([0.0883024619, 0.2817188376, 0.6299787005])
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
    to_lab.append([0.0259040371, 0.7827717662, -0.8086757660])
    for direction in (-1, 1):
        rgb = torch.tensor(browser.pixels("#legend")) / 255
        linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        lab = ((linear @ torch.tensor(to_lms).T) ** (1 / 3)) @ torch.tensor(to_lab).T
        lightness = lab[:, 0]
        sixteenths = lab[::15].diff(dim=0).norm(dim=1)  # a colour of 8 bits is too coarse for single steps
        assert sixteenths.max() / sixteenths.min() < 1.2
        assert (direction * lightness[::15].diff() > 0).all()
        assert lightness.max() - lightness.min() > 0.6
        browser.evaluate("document.getElementById('theme').click()")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")


def test_a_token_shows_its_row_and_a_column_under_the_mouse_and_from_the_keyboard(
    browser: Browser, tmp_path: Path
) -> None:
    open_cross(browser, tmp_path)
    row = WEIGHTS[0][0][1]

    def shown(side: str) -> list[str]:
        return browser.evaluate(f"[...document.querySelectorAll('#{side}-tokens output')].map(o => o.textContent)")

    def numbers(weights: Tensor) -> list[float]:
        return [round(float(w), 2) for w in weights]

    def near(found: list[str], weights: Tensor) -> bool:
        values = [0.005 if text == "<0.01" else float(text) for text in found]
        return all(abs(a - b) <= 0.0101 for a, b in zip(values, numbers(weights), strict=True))

    browser.point("#from-tokens li:nth-child(2) button")
    assert near(shown("to"), row)
    assert shown("from") == [""] * 4
    reading = browser.evaluate("document.getElementById('reading').textContent")
    best = int(row.argmax())
    assert reading.startswith(f"Kat attends to {SOURCE.names[best]} {float(row.max()):.2f}")
    browser.point("#to-tokens li:nth-child(5) button")
    assert near(shown("from"), WEIGHTS[0][0][:, 4])
    assert "cat is attended to by" in browser.evaluate("document.getElementById('reading').textContent")
    browser.point("#map", x=4.5 / 6, y=2.5 / 4)
    assert near(shown("to"), WEIGHTS[0][0][2])
    assert browser.evaluate("document.getElementById('reading').textContent").startswith("ze attends to cat")
    browser.evaluate("document.querySelector('#from-tokens button').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    assert browser.evaluate("document.activeElement.textContent") == "ze"
    assert near(shown("to"), WEIGHTS[0][0][2])
    assert browser.evaluate("document.getElementById('reading').getAttribute('aria-live')") == "polite"


def test_a_head_is_chosen_with_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    open_cross(browser, tmp_path)
    browser.evaluate("document.querySelector('#grid button').focus()")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        browser.press(key)
    browser.wait("document.getElementById('detail').dataset.drawn === 'cross 2 1'")
    assert browser.evaluate(
        "document.querySelector('#grid [aria-pressed=true]').getAttribute('aria-label')"
    ).startswith("Layer 2, head 1")
    assert browser.evaluate("[document.getElementById('layer').value, document.getElementById('head').value]") == [
        "1",
        "1",
    ]
    reachable = browser.evaluate("document.querySelectorAll('#grid button[tabindex=\"0\"]').length")
    assert reachable == 1  # the others by arrow keys
    unnamed = browser.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter(e => !e.ariaLabel && !e.textContent.trim()"
        " && !(e.labels && e.labels.length)).length"
    )
    assert unnamed == 0


def test_subwords_become_words_and_the_table_has_every_number(browser: Browser, tmp_path: Path) -> None:
    open_cross(browser, tmp_path)
    browser.evaluate("document.getElementById('merge').click()")
    browser.wait("document.querySelectorAll('#from-tokens li').length === 3")
    names = "[...document.querySelectorAll('#{}-tokens bdi')].map(e => e.textContent)"
    assert browser.evaluate(names.format("from")) == ["Die", "Katze", "!"]
    assert browser.evaluate(names.format("to")) == ["The", "unbelievable", "cat", "."]
    browser.evaluate("document.getElementById('numbers').open = true")
    browser.wait("document.querySelectorAll('#table td').length > 3")
    table = browser.evaluate(
        "[...document.querySelectorAll('#table tbody tr')]"
        ".map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    head = WEIGHTS[0][0]
    columns = torch.stack([head[:, 0], head[:, 1:4].sum(dim=1), head[:, 4], head[:, 5]], dim=1)
    expected = torch.stack([columns[0], columns[1:3].mean(dim=0), columns[3]])
    found = torch.tensor([[0.005 if cell == "<0.01" else float(cell) for cell in row] for row in table])
    torch.testing.assert_close(found, expected, atol=0.012, rtol=0)


def test_hops_colour_the_sentence(browser: Browser, tmp_path: Path) -> None:
    hops = random_weights(1, 3, 6)
    made = view_of("hops", tokens([f"hop {n}" for n in range(3)]), SOURCE, {0: hops})
    browser.open(made.save(tmp_path / "hops.html"), READY)
    lines = browser.evaluate(
        "[...document.querySelectorAll('#sentence p')].map(p => [...p.querySelectorAll('bdi')].map(b => b.title))"
    )
    everything = hops[0].sum(dim=0) / hops[0].sum()
    for line, weights in zip(lines, [everything, *hops[0]], strict=True):
        values = [0.005 if cell == "<0.01" else float(cell) for cell in line]
        assert values == pytest.approx(weights.tolist(), abs=0.0101)
    assert browser.evaluate("document.getElementById('lines').hidden")


HOSTILE = [
    "<script>document.title='broken'</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\u2028\u2029",
    "{{DATA}}{{SCRIPT}}",
    "&lt;b&gt;&amp;",
    "\"'`${1}\\",
    "שלום עולם",
    "\u202eمرحبا",  # noqa: RUF001
    "👩‍👩‍👧‍👦🇩🇪",
    "\ud800",
    "",
    " ",
    "\x00\x07",
    "a" * 500,
]


def test_text_stays_text_and_nothing_is_loaded(browser: Browser, tmp_path: Path) -> None:
    weights = {0: random_weights(2, len(HOSTILE), len(HOSTILE))}
    made = view_of("self", tokens(HOSTILE), tokens(HOSTILE), weights)
    made.title = HOSTILE[0] + HOSTILE[1]
    browser.open(made.save(tmp_path / "hostile.html"), READY)
    assert browser.evaluate("document.documentElement.dataset.state") == "ready"
    shown = browser.evaluate("[...document.querySelectorAll('#from-tokens bdi')].map(e => e.textContent)")
    assert [text.replace("\ufffd", "\ud800") for text in shown] == HOSTILE
    assert browser.evaluate("document.querySelector('h1').textContent") == made.title
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.title") == f"Attention: {made.title}"
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("file:")] == []
    assert len(browser.requests) == 1


def test_512_tokens_and_144_heads(browser: Browser, tmp_path: Path) -> None:
    names = [f"w{n}" for n in range(512)]
    weights = {layer: random_weights(12, 512, 512, seed=layer) for layer in range(12)}
    made = view_of("self", tokens(names), tokens(names), weights)
    browser.open(made.save(tmp_path / "large.html"), READY)
    assert browser.evaluate("document.querySelectorAll('#grid canvas').length") == 144
    drawn = levels(browser, "#grid button[data-layer='11'][data-head='3'] canvas").view(64, 64)
    head = weights[11][3]
    expected = head.view(64, 8, 64, 8).amax(dim=(1, 3)) / head.max()
    torch.testing.assert_close(drawn, expected, atol=0.006, rtol=0)
    browser.evaluate("document.querySelector(\"#grid button[data-layer='11'][data-head='3']\").click()")
    browser.wait("document.getElementById('detail').dataset.drawn === 'self 11 3'")
    assert browser.evaluate("[document.getElementById('map').width, document.getElementById('map').height]") == [
        512,
        512,
    ]
    assert browser.errors == []
