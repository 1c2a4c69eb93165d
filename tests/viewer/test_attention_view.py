"""``attnzoo.view`` of every kind of model: its weights are the model's, its tokens those of the text."""

import base64
import gzip
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    ByT5Tokenizer,
    PreTrainedTokenizerFast,
)

import attnzoo
from attnzoo.alignment import alignment_error_rate
from attnzoo.viewer import AttentionMaps, AttentionView, save_page
from attnzoo.viewer import page as viewer_page
from attnzoo.viewer.style import DARK, LIGHT
from attnzoo.viewer.tokens import Tokens, tokens_of
from tests.factory import RNN_VARIANTS, tiny_config, tiny_model
from tests.viewer.tiny_hugging_face import DECODERS, ENCODER_DECODERS, OF_TRANSFORMERS, OURS, tiny

KEYS = {"self": "attentions", "encoder": "encoder_attentions", "decoder": "decoder_attentions"}
KEYS["cross"] = "cross_attentions"
WITH_TARGET = [*ENCODER_DECODERS, "small-transformer"]


def tokenizer_of() -> Any:
    """One-letter tokens with the ids 3 to 12, words at white space, an end token."""
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {letter: i for i, letter in enumerate("abcdefghij", start=3)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


TEXT, TARGET = "ab cj d", "jih gf"
SOURCE_IDS, TARGET_IDS = [3, 4, 5, 12, 6, 2], [12, 11, 10, 9, 8, 2]


@pytest.mark.parametrize("name", [*OF_TRANSFORMERS, *OURS])
def test_the_weights_are_those_of_the_eager_model(name: str) -> None:
    has_target = name in WITH_TARGET
    found = attnzoo.view(tiny(name), tokenizer_of(), TEXT, TARGET if has_target else None)
    inputs = {"input_ids": torch.tensor([SOURCE_IDS])} | ({"labels": torch.tensor([TARGET_IDS])} if has_target else {})
    outputs = tiny(name, "eager")(**inputs, output_attentions=True)
    assert list(found.maps) == (["cross", "encoder", "decoder"] if has_target else ["self"])
    for kind, maps in found.maps.items():
        expected = outputs[KEYS[kind]]
        assert list(maps.weights) == list(range(len(expected)))
        for number, weights in maps.weights.items():
            torch.testing.assert_close(weights, expected[number][0], atol=1e-5, rtol=0)
            assert weights.shape[1:] == (len(maps.target.names), len(maps.source.names))
    if has_target:
        assert found.maps["cross"].target.ids == TARGET_IDS
        assert found.maps["cross"].source.names == ["a", "b", "c", "j", "d", "</s>"]
        assert found.maps["decoder"].source.ids[1:] == TARGET_IDS[:-1]
    assert found.weights == {kind: maps.weights for kind, maps in found.maps.items()}


@pytest.mark.parametrize("name", ["bert", "bart", "t5", "small-transformer"])
def test_chosen_layers(name: str) -> None:
    everything = attnzoo.view(tiny(name), tokenizer_of(), TEXT, TARGET if name in WITH_TARGET else None)
    last = attnzoo.view(tiny(name), tokenizer_of(), TEXT, TARGET if name in WITH_TARGET else None, layers=[-1])
    for kind, maps in last.maps.items():
        (number,) = maps.weights
        assert number == max(everything.weights[kind])
        torch.testing.assert_close(maps.weights[number], everything.weights[kind][number])


@pytest.mark.parametrize("name", [*WITH_TARGET, "rnn"])
@pytest.mark.parametrize("beams", [1, 3])
def test_what_generate_returns_has_the_weights_that_generate_recorded(name: str, beams: int) -> None:
    """The result with its attentions, its ids alone, and the same options without a target give the same view."""
    is_rnn = name == "rnn"
    model = tiny_model("luong-lstm-general-feeding", dtype=torch.float32) if is_rnn else tiny(name, "eager")
    inputs = tokenizer_of()([TEXT], return_tensors="pt", return_token_type_ids=False)
    options = {"max_new_tokens": 5, "num_beams": beams, "do_sample": False}
    generated = model.generate(**inputs, **options, output_attentions=True, return_dict_in_generate=True)
    found = attnzoo.view(model, tokenizer_of(), TEXT, generated)
    length = len(found.maps["cross"].target.ids)
    assert found.maps["cross"].target.ids == generated.sequences[0, 1 : 1 + length].tolist()
    beam = generated.beam_indices[0] if beams > 1 else torch.zeros(length, dtype=torch.int64)
    for number, weights in found.weights["cross"].items():
        steps = [generated.cross_attentions[t][number][int(beam[t]), :, -1] for t in range(length)]
        torch.testing.assert_close(weights, torch.stack(steps, dim=1).float(), atol=1e-5, rtol=0)
    model.generation_config.update(**options)
    for other in (generated.sequences, None):
        again = attnzoo.view(model, tokenizer_of(), TEXT, other)
        assert again.maps["cross"].target.ids == found.maps["cross"].target.ids
        torch.testing.assert_close(again.weights["cross"], found.weights["cross"])


@pytest.mark.parametrize("name", [*DECODERS, "small-transformer-causal"])
def test_a_decoder_shows_a_text_with_its_continuation(name: str) -> None:
    model, tokenizer = tiny(name), tokenizer_of()
    tokenizer.backend_tokenizer.post_processor = None
    ids = tokenizer([TEXT], return_tensors="pt", return_token_type_ids=False)
    generated = model.generate(**ids, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    found = attnzoo.view(model, tokenizer, TEXT, generated)
    assert found.maps["self"].source.ids == generated[0].tolist()
    whole = attnzoo.view(model, tokenizer, "ab cj d ab")
    for continuation in (" ab", [{"generated_text": "ab cj d ab"}]):
        other = attnzoo.view(model, tokenizer, TEXT, continuation)
        torch.testing.assert_close(other.weights, whole.weights)
    (steps,) = found.weights["self"][0][:1]
    assert (steps.triu(1) == 0).all()


@pytest.mark.parametrize("variant", [name for name in RNN_VARIANTS if tiny_config(name).score != "none"][:4])
def test_alignments_of_the_rnn(variant: str) -> None:
    model = tiny_model(variant, dtype=torch.float32, max_source_positions=12)
    found = attnzoo.view(model, tokenizer_of(), TEXT, TARGET)
    outputs = model(torch.tensor([SOURCE_IDS]), labels=torch.tensor([TARGET_IDS]), output_attentions=True)
    assert list(found.maps) == ["cross"]
    torch.testing.assert_close(found.weights["cross"][0], outputs.cross_attentions[0][0])


@pytest.mark.parametrize("name", ["single", "pair"])
def test_hops_of_a_sentence_and_of_a_pair(name: str) -> None:
    model, tokenizer = tiny_model(name, dtype=torch.float32), tokenizer_of()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    text = (TEXT, TARGET) if name == "pair" else TEXT
    found = attnzoo.view(model, tokenizer, text)
    batch = tokenizer(*([t] for t in (text if name == "pair" else (text,))), return_tensors="pt")
    expected = model(**batch, output_attentions=True).attentions[0][0]
    torch.testing.assert_close(found.weights, {"hops": {0: expected}})
    assert found.maps["hops"].target.names == ["hop 0", "hop 1", "hop 2"]
    assert len(found.maps["hops"].source.names) == expected.shape[-1]


def test_a_pipelines_result_is_a_target() -> None:
    model, tokenizer = tiny("bart"), tokenizer_of()
    expected = attnzoo.view(model, tokenizer, TEXT, TARGET)
    for result in (
        [{"translation_text": TARGET}],
        {"target_text": TARGET, "score": -1.0},
        [{"generated_text": TARGET}],
    ):
        torch.testing.assert_close(attnzoo.view(model, tokenizer, TEXT, result).weights, expected.weights)


def test_the_model_keeps_its_mode() -> None:
    model = tiny("bart").train()
    first, second = (attnzoo.view(model, tokenizer_of(), TEXT, TARGET).weights for _ in range(2))
    torch.testing.assert_close(first, second, atol=0, rtol=0)  # no dropout
    assert model.training


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("bert", ("", None), ValueError, "text is empty"),
        ("bert", (" \n", None), ValueError, "text is empty"),
        ("bert", ([], None), ValueError, "text is empty"),
        ("bert", (3, None), TypeError, "text must be a text, .* got int"),
        ("bert", (TEXT, TARGET), ValueError, "BertForMaskedLM reads one text and has no target"),
        ("bart", (TEXT, " "), ValueError, "target is empty"),
        ("bart", (TEXT, 3), TypeError, "target must be a text, .* got int"),
        ("bart", (TEXT, torch.tensor([2.0, 3.0])), TypeError, "must hold the ids of tokens, got a tensor of float32"),
        (
            "bart",
            (TEXT, torch.tensor([2, -1])),
            ValueError,
            "target has -1, which is not an id of the model's 13 tokens",
        ),
        (
            "bart",
            (TEXT, torch.tensor([2, 13])),
            ValueError,
            "target has 13, which is not an id of the model's 13 tokens",
        ),
        ("bart", (TEXT, torch.tensor(2)), ValueError, r"shape \(tokens,\) or \(sequences, tokens\), got \(\)"),
        ("bart", (TEXT, torch.ones(1, 1, 2).long()), ValueError, r"got \(1, 1, 2\)"),
        (
            "bart",
            (TEXT, torch.tensor([TARGET_IDS])),
            ValueError,
            "begins with the token 12, and results of gen.* with 2",
        ),
        ("gpt2", (TEXT, torch.tensor([TARGET_IDS])), ValueError, "target does not begin with the text, as the result"),
        ("bart", (TEXT, [{"label": "good"}]), ValueError, "a pipeline's result without a text; it has label"),
        ("bert", (TEXT, None, [7]), ValueError, "layers must be 0 to 2, got 7"),
        ("bert", (TEXT, None, ["last"]), ValueError, "layers must be 0 to 2, got 'last'"),
        *(
            ("bert", (TEXT, None, layers), ValueError, f"such as .* or None for all, got {layers}")
            for layers in (1, ())
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(
    name: str, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        attnzoo.view(tiny(name), tokenizer_of(), *arguments)


@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_unknown_letters_and_the_mask_of_another_model_are_named(unknown: str | None) -> None:
    vocabulary = {token: number for number, token in enumerate(["[MASK]", unknown or "z", *"abcdefghij"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unknown or "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown, mask_token="[MASK]")
    if unknown is None:
        with pytest.raises(ValueError, match=r"^text has what the tokenizer cannot read: 'x', 'y'$"):
            attnzoo.view(tiny("bert"), fast, "axayx")
        return
    with pytest.warns(UserWarning, match=r"^text has parts that this model does not know: 'x', 'y'$"):
        attnzoo.view(tiny("bert"), fast, "axayx")
    with pytest.warns(UserWarning, match=r"^text has '<mask>', which this model reads as text; its mask is \[MASK\]$"):
        attnzoo.view(tiny("bert"), fast, "a <mask> [MASK]")


def test_a_page_that_no_browser_could_open_is_refused_before_the_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    found = attnzoo.view(model, tokenizer_of(), TEXT)
    count = sum(weights.numel() for weights in found.weights["self"].values())
    monkeypatch.setattr(viewer_page, "MOST_WEIGHTS", count)
    attnzoo.view(model, tokenizer_of(), TEXT)
    with pytest.raises(ValueError, match=f"would have {2 * count:,} weights, more than the {count:,} that a browser"):
        viewer_page.page([found, found])
    monkeypatch.setattr(viewer_page, "MOST_WEIGHTS", count - 1)
    monkeypatch.setattr(model, "forward", lambda **inputs: pytest.fail("the model runs"))
    with pytest.raises(ValueError, match=f"would have {count:,} weights"):
        attnzoo.view(model, tokenizer_of(), TEXT)
    for views in (found, [found, "a"]):
        with pytest.raises(TypeError, match=r"views must be a list .* one view writes its own page: view.save\(path\)"):
            save_page(views, "page.html")  # type: ignore[arg-type]


def test_a_picture_that_is_too_large_to_draw_is_refused() -> None:
    wide = AttentionMaps(Tokens([], ["a"], [0]), Tokens([], ["a"] * 3000, [0]), {0: torch.ones(8, 1, 3000)})
    with pytest.raises(ValueError, match=r"would have .* pixels; draw fewer of them, or one layer or one head"):
        AttentionView("a", "Model", {"self": wide}).plot()


def test_a_model_without_attention_is_refused() -> None:
    model = tiny_model("cho-cho_gru-forward", dtype=torch.float32)
    with pytest.raises(ValueError, match="has no attention to show"):
        attnzoo.view(model, tokenizer_of(), TEXT, TARGET)
    with pytest.raises(ValueError, match=r"can only be \[0\].*got \[1\]"):
        attnzoo.view(tiny_model("luong-lstm-dot"), tokenizer_of(), TEXT, TARGET, layers=[1])


# The page and the picture ---------------------------------------------------------------------------------------------


def page_data(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def unpacked(head: str, rows: int, columns: int) -> Tensor:
    return torch.tensor(list(gzip.decompress(base64.b64decode(head)))).view(rows, columns)


def test_the_page_holds_the_weights_in_8_bits(tmp_path: Path) -> None:
    found = attnzoo.view(tiny("bart"), tokenizer_of(), TEXT, TARGET)
    path = found.save(tmp_path / "new" / "page.html")
    data = page_data(path.read_text(encoding="utf-8"))
    (view,) = data["views"]
    for stored, (kind, maps) in zip(view["maps"], found.maps.items(), strict=True):
        assert (stored["kind"], stored["layers"]) == (kind, list(maps.weights))
        for heads, largest, weights in zip(stored["heads"], stored["largest"], maps.weights.values(), strict=True):
            for head, scale, expected in zip(heads, largest, weights, strict=True):
                drawn = unpacked(head, *expected.shape) / 255 * scale
                torch.testing.assert_close(drawn, expected, atol=scale / 510 + 1e-6, rtol=0)


def test_the_code_of_the_page_is_small_and_asks_for_nothing() -> None:
    text = attnzoo.view(tiny("bert"), tokenizer_of(), "a").to_html()
    assert len(text.encode()) < 300_000
    text = text.replace(re.findall(r'id="data">(.*?)</script>', text)[0], "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=|href=|fetch\(|XMLHttp|import\(", text)
    assert "default-src 'none'" in text


def test_text_cannot_leave_its_place() -> None:
    hostile = ["</script><script>alert(1)</script>", "<!--", "{{SCRIPT}}", "\u2028", "\ud800"]
    words = AttentionMaps(*(2 * [Tokens([], hostile, list(range(5)))]), {0: torch.eye(5)[None]})
    text = AttentionView("<b>{{DATA}}</b>", "M", {"self": words}, [(hostile[0], hostile[1])]).to_html()
    text.encode()  # no lone surrogate is left
    assert text.count("<script") == 2
    assert "<b>" not in text
    assert page_data(text)["views"][0]["maps"][0]["rows"] == hostile


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    found = attnzoo.view(tiny("bert"), tokenizer_of(), "ab")
    frame = found._repr_html_()
    (source,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert unescape(source) == found.to_html()
    assert 'sandbox="allow-scripts"' in frame


def test_a_page_and_a_picture_need_their_suffixes(tmp_path: Path) -> None:
    found = attnzoo.view(tiny("bert"), tokenizer_of(), "ab")
    for path in (tmp_path / "page.png", tmp_path):
        with pytest.raises(ValueError, match=r"pages are written to files that end in \.html or \.htm, got .*'"):
            found.save(path)
    for path in (tmp_path / "a.xyz", tmp_path):
        with pytest.raises(
            ValueError, match=r"pictures are written to files that end in \.png, .*, got (the folder )?'"
        ):
            found.plot(path)


def test_pictures_of_all_heads_a_layer_and_a_head(tmp_path: Path) -> None:
    found = attnzoo.view(tiny("bart"), tokenizer_of(), TEXT, TARGET)
    assert len(found.plot(tmp_path / "new" / "a.png").axes) == 3 * 4 + 1  # cross-attention; the last one is the scale
    assert (tmp_path / "new" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len(found.plot(kind="encoder", layer=1).axes) == 2 + 1
    (axis, _) = found.plot(kind="cross", layer=2, head=1).axes
    torch.testing.assert_close(torch.tensor(axis.images[0].get_array()), found.weights["cross"][2][1])
    with pytest.raises(ValueError, match="a head needs the number of its layer"):
        found.plot(head=1)
    with pytest.raises(ValueError, match="kind must be one of cross, encoder, decoder, got 'self'"):
        found.plot(kind="self")
    with pytest.raises(ValueError, match="layer must be one of 0, 1, 2, got 3"):
        found.plot(layer=3)
    with pytest.raises(ValueError, match="head must be 0 to 3, got 4"):
        found.plot(layer=0, head=4)


def test_the_page_has_the_colours_of_the_style() -> None:
    text = attnzoo.view(tiny("bert"), tokenizer_of(), "a").to_html()
    assert page_data(text)["colours"] == {"light": list(LIGHT.weights), "dark": list(DARK.weights)}
    for theme in (LIGHT, DARK):
        assert theme.css() in text
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]
    for theme in (LIGHT, DARK):
        style = style.replace(theme.css(), "")
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgb", style)  # no other colour


# The head that is shown first -----------------------------------------------------------------------------------------


def test_the_head_that_points_most_clearly() -> None:
    """Worked by hand: the mean of the largest weight of every source token, without special tokens and the diagonal."""
    words, side = Tokens([], [*"abc", "</s>"], [0, 1, 2, 3], None, frozenset({3})), 4
    rests_on_end, looks_at_itself = torch.zeros(side, side), torch.eye(side)
    rests_on_end[:, 3] = 1
    previous = torch.eye(side).roll(-1, dims=1)  # row t looks at t - 1
    half = 0.5 * previous + 0.5 * rests_on_end
    layers = {1: torch.stack([rests_on_end, looks_at_itself]), 4: torch.stack([half, previous])}
    assert AttentionMaps(words, words, layers).best_head() == (4, 1, pytest.approx(2 / 3))
    other = words._replace(ids=[])  # cross-attention has no diagonal to leave out
    assert AttentionMaps(other, words, layers).best_head() == (1, 1, 1.0)
    nothing = AttentionMaps(words._replace(special=frozenset(range(4))), words, layers)
    assert nothing.best_head() == (1, 0, 0.0)


def test_the_translator_opens_at_a_head_that_aligns() -> None:
    """Only a few of the 16 heads have links with a lower error rate than the one that is shown."""
    folder = attnzoo.model_path("small-transformer-multi30k-en-de")
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    pairs = {
        "A man is reading a book.": "Ein Mann liest ein Buch.",
        "Two dogs run in the snow.": "Zwei Hunde rennen im Schnee.",
    }
    gold = [{(0, 0), (1, 1), (3, 2), (4, 3), (5, 4), (6, 5)}, {(0, 0), (1, 1), (2, 2), (3, 3), (5, 4), (6, 5)}]
    errors, shown = {}, []
    for layer in range(4):
        for head in range(4):
            found = attnzoo.align(model, tokenizer, [*pairs], [*pairs.values()], layer=layer, head=head)
            errors[layer, head] = alignment_error_rate([pair.links for pair in found], gold)
    for source, target in pairs.items():
        *best, _ = attnzoo.view(model, tokenizer, source, target).maps["cross"].best_head()
        shown.append(errors[tuple(best)])
    assert sum(error < max(shown) for error in errors.values()) < 4


def test_a_page_says_where_it_opens() -> None:
    found = attnzoo.view(tiny("bart"), tokenizer_of(), TEXT, TARGET)
    for stored, (kind, maps) in zip(page_data(found.to_html())["views"][0]["maps"], found.maps.items(), strict=True):
        layer, head, clarity = maps.best_head()
        assert (stored["kind"], stored["best"], stored["clarity"]) == (kind, [layer, head], pytest.approx(clarity))


# What is predicted ----------------------------------------------------------------------------------------------------


def loaded(name: str, auto_class: Any) -> tuple[Any, Any]:
    folder = attnzoo.model_path(name)
    return auto_class.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_a_view_has_the_prediction_of_every_kind_of_model() -> None:
    model, tokenizer = loaded("self-attentive-sst2", AutoModelForSequenceClassification)
    (label,) = attnzoo.view(model, tokenizer, "A moving, witty film.").predictions
    assert label == ("Predicted label", "positive 100 %")

    model, tokenizer = loaded("small-transformer-sotu-causal", AutoModelForCausalLM)
    ((what, words),) = attnzoo.view(model, tokenizer, "The state of the").predictions
    with torch.no_grad():
        probabilities = model(**tokenizer("The state of the", return_tensors="pt")).logits[0, -1].softmax(dim=0)
    assert what == "Next word"
    assert words.startswith(f"{tokenizer.decode(probabilities.argmax()).strip()} {100 * probabilities.max():.0f} %, ")

    model, tokenizer = loaded("small-transformer-sotu-masked", AutoModelForMaskedLM)
    filled = attnzoo.view(model, tokenizer, "The <mask> of the <mask> is strong.").predictions
    assert [what for what, _ in filled] == ["Mask 1", "Mask 2"]
    with torch.no_grad():
        batch = tokenizer("The <mask> of the <mask> is strong.", return_tensors="pt")
        logits = model(**batch).logits[0]
    for place, (_, words) in zip((batch["input_ids"][0] == tokenizer.mask_token_id).nonzero(), filled, strict=True):
        assert words.startswith(tokenizer.decode(logits[place].argmax()).strip() + " ")
    assert attnzoo.view(model, tokenizer, "It is strong.").predictions == []

    model, tokenizer = loaded("attentional-rnn-g2p-cmudict", AutoModelForSeq2SeqLM)
    assert attnzoo.view(model, tokenizer, "cat").predictions == [("Output", "K AE1 T")]
    assert attnzoo.view(model, tokenizer, "read", "R EH1 D").predictions == [("Target, as given", "R EH1 D")]


@pytest.mark.parametrize("name", ["roberta", "distilbert", "albert"])  # encoders without a head
def test_a_model_that_predicts_nothing_shows_its_attention_alone(name: str) -> None:
    assert attnzoo.view(tiny(name), tokenizer_of(), TEXT).predictions == []


# Tokens ---------------------------------------------------------------------------------------------------------------


SPECIAL = ["<pad>", "</s>"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def fast(model: Any, step: Any = None, decoder: Any = None) -> Any:
    backend = Tokenizer(model)
    backend.pre_tokenizer, backend.decoder = step or pre_tokenizers.WhitespaceSplit(), decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="</s>")


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate([*SPECIAL, *tokens])}


def byte_level(*merged: str) -> Any:
    """Byte-level BPE: all bytes, and some words as one token each."""
    pieces = {word[:n] for word in merged for n in range(2, len(word) + 1)}
    merges = sorted(((piece[:-1], piece[-1]) for piece in pieces), key=lambda pair: len(pair[0]))
    vocabulary = numbered([*BYTES, *("".join(pair) for pair in merges)])
    step = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return fast(models.BPE(vocabulary, merges), step, decoders.ByteLevel())


def sentence_piece(*tokens: str) -> Any:
    pieces = [(token, 0.0) for token in (*SPECIAL, *(f"<0x{n:02X}>" for n in range(256)), *tokens)]
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return fast(models.Unigram(pieces, 0, byte_fallback=True), pre_tokenizers.Metaspace(), decoder)


def word_piece(*tokens: str) -> Any:
    return fast(models.WordPiece(numbered(list(tokens)), unk_token="<pad>"), decoder=decoders.WordPiece())


def whole_words(*tokens: str) -> Any:
    return fast(models.WordLevel(numbered(list(tokens)), unk_token="<pad>"))


@pytest.mark.parametrize(
    ("tokenizer", "text", "names", "words"),
    [
        (byte_level("caf"), "café", ["caf", "é 1/2", "é 2/2"], ["café"]),  # without a space
        (byte_level("Ġthe"), "on (the", ["o", "n", "␣", "(", "t", "h", "e"], ["on", "␣", "(", "the"]),
        (byte_level(), "a 👩", ["a", "␣", "👩 1/4", "👩 2/4", "👩 3/4", "👩 4/4"], ["a", "␣", "👩"]),
        (byte_level(), "\n文", ["⏎", "文 1/3", "文 2/3", "文 3/3"], ["⏎", "文"]),
        (sentence_piece("▁the", "▁un", "able"), "the unable", ["the", "un", "able"], ["the", "unable"]),
        (sentence_piece("▁caf"), "café", ["caf", "é 1/2", "é 2/2"], ["café"]),  # bytes as a fallback
        (word_piece("the", "un", "##able"), "the unable", ["the", "un", "##able"], ["the", "unable"]),
        (whole_words("Ġgantija", "is", "▁"), "Ġgantija is ▁", ["Ġgantija", "is", "▁"], ["Ġgantija", "is", "▁"]),
        (whole_words("##C", "C"), "C ##C", ["C", "##C"], ["C", "##C"]),
        (ByT5Tokenizer(), "é a", ["é 1/2", "é 2/2", "␣", "a"], ["é", "␣", "a"]),  # in Python; its bytes have no marks
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tokens_and_words_as_a_reader_wants_them(tokenizer: Any, text: str, names: list[str], words: list[str]) -> None:
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    found = tokens_of(tokenizer, ids)
    assert found.names == [*names, "</s>"]
    assert found.word_names == [*words, "</s>"]  # an end token is its own word
    assert found.words == sorted(found.words)
    assert found.special == {len(ids) - 1}


def test_bytes_that_are_no_character_are_marked_as_such() -> None:
    tokenizer = byte_level()
    (first, _) = tokenizer("é", add_special_tokens=False)["input_ids"]
    assert tokens_of(tokenizer, [first, tokenizer.eos_token_id]).names == ["\ufffd", "</s>"]
    assert tokens_of(tokenizer, []).names == []
