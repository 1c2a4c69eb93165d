"""The interactive page in headless Chromium: the drawn colours equal the weights, and text stays text.

Run with ``make test-page``; needs Chromium.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnzoo.viewer import AttentionMaps, AttentionView, save_page
from attnzoo.viewer.style import DARK, LIGHT
from attnzoo.viewer.tokens import Tokens
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


def tokens(names: list[str], words: list[int] | None = None, word_names: list[str] | None = None) -> Tokens:
    return Tokens([], names, words or list(range(len(names))), word_names)


def view_of(kind: str, target: Tokens, source: Tokens, weights: dict[int, Tensor]) -> AttentionView:
    return AttentionView(" ".join(source.names), "Model", {kind: AttentionMaps(target, source, weights)})


SOURCE = tokens(["The", "un", "believ", "able", "cat", "."], [0, 1, 1, 1, 2, 3], ["The", "unbelievable", "cat", "."])
TARGET = tokens(["Die", "Kat", "ze", "!"], [0, 1, 1, 2], ["Die", "Katze", "!"])
WEIGHTS = {0: random_weights(3, 4, 6), 2: 0.4 * random_weights(3, 4, 6, seed=1)}


def levels(browser: Browser, selector: str) -> Tensor:
    """The drawn weights, as shares of the scale, found by the legend, which has every colour once."""
    legend = [tuple(rgb) for rgb in browser.pixels("#legend")]
    assert len(set(legend)) == 256
    return torch.tensor([legend.index(tuple(rgb)) / 255 for rgb in browser.pixels(selector)])


def open_cross(browser: Browser, folder: Path) -> AttentionView:
    made = view_of("cross", TARGET, SOURCE, WEIGHTS)
    browser.open(made.save(folder / "page.html"), READY)
    return made


def test_every_head_is_drawn_as_its_weights_from_0_to_1_and_from_0_to_its_largest(
    browser: Browser, tmp_path: Path
) -> None:
    open_cross(browser, tmp_path)
    step = 1 / 255 + 1e-6
    for switch in (False, True):
        if switch:
            browser.evaluate("document.getElementById('stretch').click()")
        for place, (number, of_layer) in enumerate(WEIGHTS.items()):
            for head, expected in enumerate(of_layer):
                button = f"#grid button[data-layer='{place}'][data-head='{head}']"
                browser.evaluate(f'document.querySelector("{button}").click()')
                browser.wait(f"document.getElementById('detail').dataset.drawn === 'cross {number} {head}'")
                browser.evaluate("new Promise(done => setTimeout(done, 100))")
                scale = float(expected.max()) if switch else 1.0
                for canvas in (f"{button} canvas", "#map"):
                    drawn = levels(browser, canvas).view(4, 6)
                    torch.testing.assert_close(drawn, expected / scale, atol=1.5 * step, rtol=0)
                assert browser.evaluate("document.getElementById('largest').textContent") == f"{scale:.2f}"
    assert browser.errors == []


def test_the_colours_are_those_of_the_style_in_both_themes(browser: Browser, tmp_path: Path) -> None:
    open_cross(browser, tmp_path)
    for theme in (LIGHT, DARK):
        drawn = ["#" + "".join(f"{part:02x}" for part in rgb) for rgb in browser.pixels("#legend")]
        expected = [theme.of(n / 255) for n in range(256)]
        apart = [
            abs(int(a[k : k + 2], 16) - int(b[k : k + 2], 16))
            for a, b in zip(drawn, expected, strict=True)
            for k in (1, 3, 5)
        ]
        assert max(apart) <= 1  # both round
        paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == f"rgb({', '.join(str(int(theme.paper[k : k + 2], 16)) for k in (1, 3, 5))})"
        browser.evaluate("document.getElementById('theme').click()")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")


def test_one_weight_has_one_colour_everywhere_on_a_page(browser: Browser, tmp_path: Path) -> None:
    """For hops: in the coloured sentence, in the line of all hops, and in the map, with and without the switch."""
    hops = torch.tensor([[[0.8, 0.1, 0.1], [0.4, 0.4, 0.2]]])  # all hops: 0.6, 0.25, 0.15
    side = tokens(["hop 0", "hop 1"])
    made = view_of("hops", side, tokens(list("abc")), {0: hops})
    browser.open(made.save(tmp_path / "hops.html"), READY)
    for scale in (1.0, 0.8):
        sentence = browser.evaluate(
            "[...document.querySelectorAll('#sentence p')].map(p => [...p.querySelectorAll('bdi')].map(b =>"
            " b.style.background.match(/[0-9]+/g).map(Number)))"
        )
        legend = browser.pixels("#legend")
        for line, weights in zip(sentence, [torch.tensor([0.6, 0.25, 0.15]), *hops[0]], strict=True):
            assert line == [legend[round(255 * min(1.0, float(weight) / scale))] for weight in weights]
        assert browser.pixels("#map") == [rgb for line in sentence[1:] for rgb in line]
        browser.evaluate("document.getElementById('stretch').click()")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")


@pytest.mark.parametrize(("kind", "opened"), [("cross", "2 1"), ("self", "2 0")])
def test_it_opens_at_the_head_that_points_most_clearly_and_says_why(
    browser: Browser, tmp_path: Path, kind: str, opened: str
) -> None:
    weights = {0: random_weights(2, 4, 4), 2: torch.stack([torch.eye(4).roll(1, dims=1), torch.eye(4)])}
    side = tokens(list("abcd"))
    maps = AttentionMaps(side._replace(ids=[1]) if kind == "cross" else side, side, weights)
    AttentionView("a", "M", {kind: maps}).save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", READY)
    layer, head, clarity = maps.best_head()
    assert (clarity, f"{layer} {head}") == (1, "2 0")  # of equal heads the first
    weights[2][0] *= 0.9 if kind == "cross" else 1
    AttentionView("a", "M", {kind: maps}).save(tmp_path / "page.html")
    browser.open(tmp_path / "page.html", READY)
    assert browser.evaluate("document.getElementById('detail').dataset.drawn") == f"{kind} {opened}"
    said = browser.evaluate("document.getElementById('caption').textContent")
    assert "Opened at layer {}, head {}".format(*opened.split()) in said
    assert "take the largest weight that another token gives it" in said


@pytest.mark.parametrize("width", [400, 1000, 1600, 2400])
def test_one_map_fills_the_page_and_has_no_number(tmp_path: Path, width: int) -> None:
    views = {"hops": view_of("hops", tokens(["hop 0", "hop 1"]), tokens(list("abcdef")), {0: random_weights(1, 2, 6)})}
    views["cross"] = view_of("cross", TARGET, SOURCE, {0: random_weights(1, 4, 6)})
    with Browser(width, 900) as opened:
        for made in views.values():
            opened.open(made.save(tmp_path / "page.html"), READY)
            text = opened.evaluate("document.body.innerText").lower()
            assert "layer" not in text
            assert "head" not in text
            main, shown = (
                opened.evaluate(f"(() => {{ const b = {box}; return [b.left, b.right] }})()")
                for box in (
                    "document.querySelector('main').getBoundingClientRect()",
                    "document.getElementById('map').getBoundingClientRect()",
                )
            )
            assert main[0] <= 50  # no empty margins
            assert width - main[1] <= 70
            labels = 60  # upright names stand out at the right
            assert main[1] - shown[1] <= labels
            assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_no_label_of_the_map_is_cut(browser: Browser, tmp_path: Path) -> None:
    long = ["Schifffahrt", "WWWWWW", "gjpqy"]
    for names in (long, [*long] * 12):
        side = tokens(names)
        made = view_of("self", side, side, {0: random_weights(1, len(names), len(names))})
        browser.open(made.save(tmp_path / "page.html"), READY)
        cut = browser.evaluate(
            "[...document.querySelectorAll('#matrix-box span')].filter(e => e.scrollWidth > e.clientWidth + 1"
            " || e.scrollHeight > e.clientHeight + 1).map(e => e.textContent)"
        )
        assert cut == []
        left = browser.evaluate(
            "Math.min(...[...document.querySelectorAll('#matrix-box .row')].map(e => e.getBoundingClientRect().left))"
            " - document.getElementById('matrix').getBoundingClientRect().left"
        )
        assert left >= 0


def test_texts_of_a_page_are_chosen_with_their_predictions(browser: Browser, tmp_path: Path) -> None:
    views = []
    for title, label in (("A moving film.", "positive 99 %"), ("<b>Dull</b>", "negative 90 %")):
        names = tokens(title.split())
        maps = AttentionMaps(tokens(["hop 0"]), names, {0: random_weights(1, 1, len(names.names))})
        views.append(AttentionView(title, "Model", {"hops": maps}, [("Predicted label", label)]))
    browser.open(save_page(views, tmp_path / "page.html"), READY)
    names = browser.evaluate("[...document.querySelectorAll('#text option')].map(e => e.textContent)")
    assert names == ["positive 99 %: A moving film.", "negative 90 %: <b>Dull</b>"]
    for number, view in enumerate(views):
        browser.evaluate(
            f"(() => {{ const e = document.getElementById('text'); e.value = {number};"
            "e.dispatchEvent(new Event('change')) })()"
        )
        browser.wait(f"document.querySelectorAll('#sentence p:first-child bdi').length === {len(view.title.split())}")
        assert browser.evaluate("document.getElementById('title').textContent") == view.title
        shown = browser.evaluate("document.getElementById('predictions').innerText.split(/\\n+/)")
        assert [part.strip() for part in shown] == ["Predicted label", view.predictions[0][1]]
    assert browser.errors == []
    browser.open(views[0].save(tmp_path / "page.html"), READY)
    assert browser.evaluate("document.getElementById('text').parentElement.hidden")


def test_a_token_shows_its_row_and_a_column_under_the_mouse_and_from_the_keyboard(
    browser: Browser, tmp_path: Path
) -> None:
    layer, head, _ = open_cross(browser, tmp_path).maps["cross"].best_head()
    weights = WEIGHTS[layer][head]
    row = weights[1]

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
    assert near(shown("from"), weights[:, 4])
    assert "cat is attended to by" in browser.evaluate("document.getElementById('reading').textContent")
    browser.point("#map", x=4.5 / 6, y=2.5 / 4)
    assert near(shown("to"), weights[2])
    assert browser.evaluate("document.getElementById('reading').textContent").startswith("ze attends to cat")
    browser.evaluate("document.querySelector('#from-tokens button').focus()")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    assert browser.evaluate("document.activeElement.textContent") == "ze"
    assert near(shown("to"), weights[2])
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
    opened = open_cross(browser, tmp_path)
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
    layer, number, _ = opened.maps["cross"].best_head()
    head = WEIGHTS[layer][number]
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
    expected = head.view(64, 8, 64, 8).amax(dim=(1, 3))
    torch.testing.assert_close(drawn, expected, atol=0.006, rtol=0)
    browser.evaluate("document.querySelector(\"#grid button[data-layer='11'][data-head='3']\").click()")
    browser.wait("document.getElementById('detail').dataset.drawn === 'self 11 3'")
    assert browser.evaluate("[document.getElementById('map').width, document.getElementById('map').height]") == [
        512,
        512,
    ]
    assert browser.errors == []
