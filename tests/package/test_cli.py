"""The command `attnzoo`, called as by a user."""

import gzip
import io
import json
import re
import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import attnzoo
from attnzoo import SelfAttentiveConfig, model_path
from attnzoo.alignment import alignment_error_rate, from_pharaoh
from attnzoo.cli import COMMANDS, main
from attnzoo.commands.classify import label_of
from attnzoo.commands.models import folder_of
from attnzoo.shipped_models import EXPORT, PRONUNCIATION, SENTIMENT, SHIPPED, SUMMARIES, TRANSLATION
from attnzoo.viewer import AttentionView
from tests.factory import TOKENIZER
from tests.regular_language import spell_out

ROOT = Path(__file__).parents[2]


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(list(arguments))
    return capsys.readouterr().out.splitlines()


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert not stopped.value.code
    printed = " ".join(capsys.readouterr().out.split())
    assert f"usage: attnzoo {command}" in printed
    assert f"example: attnzoo {command} " in printed


def test_the_command_alone_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    printed = "\n".join(output_of(capsys))
    assert all(f"\n  {command} " in printed for command in COMMANDS)
    with pytest.raises(SystemExit):
        main(["pronunce", "zoo"])
    assert "no command 'pronunce'; did you mean 'pronounce'?" in capsys.readouterr().err


def test_the_command_is_installed() -> None:
    (command,) = entry_points(group="console_scripts", name="attnzoo")
    assert command.load() is main


def test_without_the_packages_of_training_help_works_and_the_command_names_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attnzoo, "training", attnzoo.training)  # what is imported below does not stay
    for module in [name for name in sys.modules if name.startswith("attnzoo.training")]:
        monkeypatch.delitem(sys.modules, module)
    for package in ("accelerate", "datasets", "jinja2", "matplotlib", "matplotlib.figure", "scipy"):
        monkeypatch.setitem(sys.modules, package, None)
    for command in [name for name, command in COMMANDS.items() if command.run.startswith("attnzoo.training")]:
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
        assert f"example: attnzoo {command} " in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit, match=r"needs the package 'accelerate'.*pip install '\.\[train\]'"):
        main(["train", "demo"])


def test_pronounce(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the dictionary and the model: given words, or a word in every line of the standard input or of a file."""
    cat_zebra = ["cat\tK AE1 T", "Zebra\tZ IY1 B R AH0"]
    assert output_of(capsys, "pronounce", "cat", "Zebra") == cat_zebra
    assert output_of(capsys, "pronounce", "cat", "--no-dictionary", "Zebra") == cat_zebra
    assert output_of(capsys, "pronounce", "two\nlines", "--output", "tsv")[1].startswith("two lines\tT UW1 L AY1 N Z\t")
    standard_input(monkeypatch, b"cat\n\nZebra \n")
    assert output_of(capsys, "pronounce", "--num-beams", "1") == [cat_zebra[0], "", cat_zebra[1]]
    rows = [line.split("\t") for line in output_of(capsys, "pronounce", "blorp", "--n-best", "2")]
    assert [word for word, _, _ in rows] == ["blorp"] * 2
    assert 1 > float(rows[0][2]) > float(rows[1][2]) > 0
    picture = tmp_path / "new" / "cat.png"
    output_of(capsys, "pronounce", "cat", "--plot", str(picture))
    assert picture.stat().st_size > 1000
    for model, said in {"nowhere": "neither a folder nor", str(tmp_path): "is not a checkpoint folder"}.items():
        with pytest.raises(SystemExit, match=said):
            main(["pronounce", "cat", "--model", model])


def test_pronounce_a_file_and_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, lexicon = tmp_path / "words.txt", tmp_path / "mine.tsv"
    file.write_text("cat\nblorp\n\nzyx\n42\n", encoding="utf-8")
    lexicon.write_text("zyx\tZ IH K S\n")
    main(["pronounce", "--file", str(file), "--output", "tsv", "--lexicon", str(lexicon)])
    printed = capsys.readouterr()
    header, *rows = [line.split("\t") for line in printed.out.splitlines()]
    assert header == ["word", "phonemes", "source", "confidence"]
    assert [row[0] for row in rows] == ["cat", "blorp", "", "zyx", "42"]
    assert [row[2] for row in rows] == ["dictionary", "model", "unknown", "lexicon", "dictionary"]
    assert all(0 < float(row[3]) <= 1 for row in rows if row[0])
    assert "5/5" in printed.err
    texts = ["Hello, cat!", "", "The cat."]
    assert output_of(capsys, "pronounce", "--sentence", "--phones", "ipa", *texts) == [
        "hə\u02c8loʊ, \u02c8kæt!",
        "",
        "ðə \u02c8kæt.",
    ]
    assert output_of(capsys, "pronounce", "--sentence", *texts[::2]) == ["HH AH0 L OW1 | K AE1 T", "DH AH0 | K AE1 T"]


def test_the_unknown_words_of_a_text_are_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["pronounce", "--sentence", f"cat {' '.join('寿司品東京大学北海道')} 寿 cat", "cat"])
    listed = "'寿', '司', '品', '東', '京', '大', '学', '北' and 2 more"
    error = f"error: text 1: {listed} have no pronunciation; '寿' has characters that this model does not know: '寿'\n"
    assert capsys.readouterr() == ("K AE1 T | K AE1 T\nK AE1 T\n", error)


def test_pronounce_says_how_the_words_of_a_text_stay_apart(capsys: pytest.CaptureFixture[str]) -> None:
    text = "The cat and the dog sleep. It is late."
    main(["pronounce", "United States of America", text, text.lower()])
    said = f"warning: {text!r} has 9 words, and is printed as one; add --sentence to keep the words of a text apart\n"
    assert capsys.readouterr().err == said
    main(["pronounce", text, "--sentence"])
    assert capsys.readouterr().err == ""


def test_a_word_that_cannot_be_read_costs_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    for output, unknown in (("plain", "\n\n"), ("tsv", "寿司\t\tunknown\t\n")):
        with pytest.raises(SystemExit) as stopped:
            main(["pronounce", "cat", "寿司", "Dog", "--output", output])
        assert stopped.value.code == 1
        printed = capsys.readouterr()
        assert "cat\tK AE1 T" in printed.out
        assert "Dog\tD AO1 G" in printed.out
        assert ("寿司" in printed.out, unknown in printed.out) == (output == "tsv", True)
        assert "'寿司' has characters that this model does not know" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pronounce cat --file FILE", "got 'cat' too; leave one out"),
        ("pronounce cat --sentence --output tsv", "leave --output and --n-best out"),
        ("pronounce hej --model attentional-rnn-g2p-sv --accent en-us", "has no accents, got accent='en-us'; leave it"),
        ("pronounce cat --sentence --n-best 2", "leave --output and --n-best out"),
        ("pronounce ... --plot FILE.png", "FILE.png is not drawn"),
        (
            "pronounce cat --plot a.xyz",
            "pictures are written to files that end in .png, .pdf or .svg, got 'a.xyz'",
        ),
        ("pronounce cat --plot .", "pictures are written to files that end in .png, .pdf or .svg, got the folder '.'"),
        ("view nowhere a -o a.xyz", ".svg, got 'a.xyz'; a page is written to a file that ends in .html"),
        ("classify a --html .", "pages are written to files that end in .html or .htm, got the folder '.'"),
        ("align FILE FILE --batch-size 0", "--batch-size must be at least 1, got 0"),
        ("align FILE FILE --choose FILE FILE FILE --head 1", "leave --layer, --head and --shift out"),
        ("align FILE FILE", "FILE is empty; there is nothing to align"),
        ("pronounce --file FILE", "FILE has no words; write a word on each line"),
        ("publish FILE a:b/c --dry-run", "repo_id must be owner/name, got 'a:b/c'"),
        ("publish FILE x/y/z --dry-run", "repo_id must be owner/name, got 'x/y/z'"),
        ("publish FILE x --dry-run", "repo_id='x' has no owner; write owner/x"),
        ("view nowhere a -o .", "got the folder '.'; a page is written to a file that ends in .html"),
        ("align TEXT TEXT --model self-attentive-sst2", "give an encoder-decoder, not a self_attentive"),
    ],
)
def test_an_option_is_refused_and_not_ignored(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    Path("TEXT").write_text("a\n")
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert message in f"{stopped.value.code} {capsys.readouterr().err}"


def test_translate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the input has a line of output, also an empty one."""
    standard_input(monkeypatch, b"\xef\xbb\xbfA man is reading a book.\r\n\rA man is reading a book.")
    expected = "Ein Mann liest ein Buch."
    assert output_of(capsys, "translate") == [expected, "", expected]
    main(["translate", "A 寿司."])
    assert "warning: 'A 寿司.' has parts that this model does not know: '寿司'" in capsys.readouterr().err
    main(["translate", "TWO DOGS ARE PLAYING.", "A big BROWN dog."])
    printed = capsys.readouterr()
    assert printed.out.startswith("Zwei Hunde spielen.\n")
    assert "warning: 'TWO DOGS ARE PLAYING.' is read as 'Two dogs are playing.'" in printed.err
    assert "warning: 'A big BROWN dog.' has words that this model reads letter by letter: 'BROWN'" in printed.err


@pytest.mark.parametrize(("model", "longest"), [(TRANSLATION, 84), ("attentional-rnn-multi30k-en-de", 53)])
def test_translate_warns_of_what_the_model_did_not_learn(
    model: str, longest: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """German, and a text longer than all training texts, give a warning; plain captions do not."""
    captions = ["Two dogs are playing in the snow.", "A man in a blue shirt is standing on a ladder."]
    strange = ["Ein Mann steht mit einem Hund auf der Straße.", "Negotiations over tariffs broke down last week."]
    main(["translate", *captions, *strange, "--model", model])
    said = capsys.readouterr().err
    assert all(f"{text!r} is unlike what this model learned from" in said for text in strange)
    assert not any(text in said for text in captions)
    main(["translate", " ".join(captions * 5), "--model", model, "--num-beams", "1"])
    assert f"and the model learned from sources of at most {longest}: split it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "model", "message"),
    [
        ("pronounce", TRANSLATION, r"a model for translation \(.*\), which attnzoo pronounce .* attnzoo translate"),
        ("pronounce", SUMMARIES, "a model for summarization .* use attnzoo summarize"),
        ("translate", PRONUNCIATION, "a model for grapheme-to-phoneme .* use attnzoo pronounce"),
        ("translate", SUMMARIES, "a model for summarization .* use attnzoo summarize"),
        ("translate", SENTIMENT, r"a classifier \(SelfAttentive.*\), which .* use attnzoo classify"),
        ("summarize", TRANSLATION, "a model for translation .* use attnzoo translate"),
        ("summarize", "small-transformer-sotu-causal", r"without source and target \(SmallTransformerForCausalLM\)"),
        ("classify", PRONUNCIATION, "which attnzoo classify does not read; use attnzoo pronounce"),
        ("classify", TRANSLATION, "which attnzoo classify does not read; use attnzoo translate"),
        ("classify", "small-transformer-sotu-masked", r"\(SmallTransformerForMaskedLM\), which .* use attnzoo view"),
    ],
)
def test_a_model_of_another_task_is_refused(command: str, model: str, message: str) -> None:
    """Its output would look valid, but would be meaningless."""
    with pytest.raises(SystemExit, match=f"^error: {model} is .*{message}"):
        main([command, "hello", "--model", model])


def test_without_a_card_the_tokenizer_says_what_pronounces(tmp_path: Path) -> None:
    words, sentences = (
        str(shutil.copytree(model_path(name), tmp_path / name, ignore=shutil.ignore_patterns("README.md")))
        for name in (PRONUNCIATION, TRANSLATION)
    )
    assert folder_of(sentences, "summarize") == sentences
    with pytest.raises(ValueError, match=r"a model for grapheme-to-phoneme .* use attnzoo pronounce"):
        folder_of(words, "translate")


@pytest.mark.parametrize("command", ["translate x --model", "classify x --model", "view -o a.html", "export", "align"])
def test_an_exported_model_is_refused_by_all_but_pronounce(command: str, tmp_path: Path) -> None:
    for name in ("config.json", EXPORT, "a"):
        (tmp_path / name).write_text("{}")
    arguments = [*command.split(), str(tmp_path)]
    if command == "align":
        arguments = ["align", str(tmp_path / "a"), str(tmp_path / "a"), "--model", str(tmp_path)]
    name = command.split()[0]
    with pytest.raises(SystemExit, match=f"is an exported model, which attnzoo {name} does not read; give the model"):
        main([*arguments, "x"] if name in ("view", "export") else arguments)


def test_classify_prints_labels_and_shows_the_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "pages" / "a.html"
    texts = "A moving film.", "A <b>bad</b> film."
    first, second = output_of(capsys, "classify", *texts, "--html", str(page))
    assert first.startswith("positive ")
    assert second.startswith("negative ")
    assert second.endswith("\tA <b>bad</b> film.")
    data = re.search(r'id="data">(.*?)</script>', page.read_text())
    assert data is not None
    for view, printed in zip(json.loads(data[1])["views"], (first, second), strict=True):
        assert f"{view['predictions'][0][1]}\t{view['title']}" == printed
    main(["classify", texts[1], "--html", str(page)])
    main(["view", SENTIMENT, texts[1], "-o", str(tmp_path / "view.html")])
    assert page.read_text() == (tmp_path / "view.html").read_text()  # one page, by either command


def test_a_text_that_cannot_be_shown_costs_no_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def view(model: object, tokenizer: object, text: str) -> AttentionView:
        if text == "Good.":
            raise ValueError("the page would have too many weights")
        return attnzoo.view(model, tokenizer, text)

    monkeypatch.setattr("attnzoo.commands.classify.view", view)
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["classify", "Good.", "Bad.", "--html", str(tmp_path / "a.html")])
    printed = capsys.readouterr()
    assert [line.split("\t")[1] for line in printed.out.splitlines()] == ["Good.", "Bad."]
    assert "error: sentence 1: the page would have too many weights\n" in printed.err
    assert "Bad." in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_classify_says_which_text_it_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    main(["classify", "Хороший фильм!", "qzx film", "...", "A film.", "Dieser Film ist schlecht gemacht"])
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 5
    assert "warning: 'Хороший фильм!' has no word that this model knows; its label is meaningless\n" in printed.err
    unknown = "4 words of 5 that this model does not know, 'Dieser', 'ist', 'schlecht', 'gemacht'"
    assert f"warning: 'Dieser Film ist schlecht gemacht' has {unknown}; the label may be wrong\n" in printed.err
    assert len(printed.err.splitlines()) == 2


def test_special_tokens_in_a_text_are_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    main(["classify", "<pad> </s>"])
    assert "'<pad> </s>' has no word that this model knows" in capsys.readouterr().err


def test_classify_reads_single_sentences_and_pairs_of_a_model_of_transformers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Many tokenizers make token_type_ids for models of single sentences. The label has a tab."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(TOKENIZER), id2label={0: "a\tb", 1: "a\tb"}, **sizes)
    model = BertForSequenceClassification(config)
    model.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    main(["classify", "abc", "abc\tdea", "dea", "--model", str(tmp_path)])
    labels, *rest = zip(*(line.split("\t", 1) for line in capsys.readouterr().out.splitlines()), strict=True)
    assert rest == [("abc", "abc\tdea", "dea")]
    for label, texts in zip(labels, (["abc"], ["abc", "dea"], ["dea"]), strict=True):
        with torch.no_grad():
            probability = model.eval()(**TOKENIZER(*texts, return_tensors="pt")).logits.softmax(-1).max().item()
        assert label == f"a b {100 * probability:.0f} %"


def test_a_picture_without_matplotlib_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"error: .*matplotlib.*; pip install '\.\[plots\]'"):
        main(["pronounce", "cat", "--plot", "a.png"])


def test_a_label_is_what_the_kind_of_problem_asks_for() -> None:
    """Logits of ln 4 and -ln 4: odds of 16 to 1 for one of two labels, of 4 to 1 and 1 to 4 for separate labels."""
    logits = torch.tensor([1.3863, -1.3863])
    for problem_type, said in {
        "single_label_classification": "calm 94 %",
        "multi_label_classification": "calm 80 %, loud 20 %",
        "regression": "calm 1.386, loud -1.386",
        None: "calm 94 %",
    }.items():
        config = SelfAttentiveConfig(id2label={0: "calm", 1: "loud"}, problem_type=problem_type)
        assert label_of(logits, config) == said
    assert label_of(logits[:1], SelfAttentiveConfig(id2label={0: "stars"})) == "stars 1.386"


def test_align_prints_links_scores_and_the_error_rate(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tetha", "kheno"]
    for name, lines in {
        "words": words,
        "phonemes": [spell_out(word) for word in words],
        "gold": ["0-0 1-1 2-2 3p2 4-3", "0-0 1p0 2-1 3-2 4-3"],
    }.items():
        (tmp_path / name).write_text("\n".join(lines))
    command = ["align", *(str(tmp_path / name) for name in ("words", "phonemes")), "--model", str(run / "best")]
    main([*command, "--scores", "--gold", str(tmp_path / "gold")])
    output = capsys.readouterr()
    rows = [line.split("\t") for line in output.out.splitlines()]
    assert len(rows) == 2
    assert all(float(score) < 0 for score, _ in rows)
    links = [from_pharaoh(line)[0] for _, line in rows]
    gold = [from_pharaoh(line) for line in (tmp_path / "gold").read_text().splitlines()]
    expected = alignment_error_rate(links, *zip(*gold, strict=True))
    assert f"AER {100 * expected:.2f} %" in output.err
    # a word is what white space separates
    assert all(line.startswith("0-0") for line in output_of(capsys, *command, "--words"))
    main([*command, "--shift", "paper"])
    (tmp_path / "words").write_text("tetha\nna\u00efve\n")
    with pytest.raises(SystemExit, match="source 1, 'na\u00efve', cannot be tokenized"):
        main(command)
    (tmp_path / "gold").write_text("0-0")
    with pytest.raises(SystemExit, match="has 1 lines"):
        main([*command, "--gold", str(tmp_path / "gold")])
    for lines, message in (
        ("tetha\n", "words has 1 lines, .*phonemes has 2"),
        ("a\n \nb\n", "line 2 of .*words is empty"),
    ):
        (tmp_path / "words").write_text(lines)
        with pytest.raises(SystemExit, match=message):
            main(command)
    (tmp_path / "words").write_bytes("café\ntetha\n".encode("latin-1"))
    with pytest.raises(SystemExit, match=r"words is not UTF-8 .* iconv"):
        main(command)
    files = [str(tmp_path / name) for name in ("phonemes", "words", "gold")]
    with pytest.raises(SystemExit, match=r"words is not UTF-8 .* iconv"):
        main([command[0], files[0], files[0], *command[3:], "--choose", *files])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04ab", "is a zip file or a workbook, not text; give a text file in UTF-8"),
        (gzip.compress(b"cat", mtime=0), "is compressed by gzip, not text"),
        ("cat\n".encode("utf-16"), "is not UTF-8 .*; convert it, for example with iconv -f utf-16"),
        ("cat\n".encode("utf-16-le"), "is a binary file, not text"),
        ("café\n".encode("latin-1"), "is not UTF-8 .*; convert it, for example with iconv$"),
    ],
)
def test_a_standard_input_that_is_no_text_is_refused(
    content: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("pronounce", "translate", "classify"):
        standard_input(monkeypatch, content)
        with pytest.raises(SystemExit, match=f"^error: the standard input {message}"):
            main([command])


@pytest.mark.parametrize("command", ["pronounce", "translate", "summarize", "classify", "view"])
def test_an_argument_that_is_not_utf8_is_refused(command: str, tmp_path: Path) -> None:
    argument = b"caf\xe9".decode(errors="surrogateescape")  # as Python reads it
    view = [SENTIMENT, argument, "-o", str(tmp_path / "page.html")]
    with pytest.raises(SystemExit, match=r"error: the (word|sentence|text) is not UTF-8"):
        main([command, *(view if command == "view" else [argument])])


def test_align_chooses_heads_and_symmetrises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        "en": "Two dogs play in the snow .\nA man is reading a book .\n",
        "de": "Zwei Hunde spielen im Schnee .\nEin Mann liest ein Buch .\n",
        "links": "0-0 1-1 2-2 3-3 5-4 6-5\n0-0 1-1 3-2 4-3 5-4 6-5\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in texts}
    model = "small-transformer-multi30k-en-de"
    command = ["align", paths["en"], paths["de"], "--words", "--gold", paths["links"], "--model", model]
    command += ["--choose", paths["en"], paths["de"], paths["links"]]
    main(command)
    output = capsys.readouterr()
    choice = rf"{model}: layer \d.*; shift [01]; AER (\d+\.\d\d) %"
    (error_rate,) = re.findall(choice, output.err)
    assert f"AER {error_rate} % of 2 pairs" in output.err
    assert float(error_rate) < 10
    # The links of both directions are some of the links of one.
    main([*command, "--reverse", model, "--symmetrise", "intersection"])
    both = capsys.readouterr()
    assert len(re.findall(choice, both.err)) == 2
    for found, forward in zip(both.out.splitlines(), output.out.splitlines(), strict=True):
        assert from_pharaoh(found)[0] <= from_pharaoh(forward)[0]
    with pytest.raises(SystemExit, match="--reverse aligns words of two models: give --words"):
        main(["align", paths["en"], paths["de"], "--reverse", model])
    with pytest.raises(
        SystemExit, match="--symmetrise union joins the links of two models: give the other by --reverse"
    ):
        main([*command, "--symmetrise", "union"])
    for second, message in (
        ("0-7", "line 2 of .*wrong has the link 0-7, but its source has 7"),
        ("0:0", "line 2 of .*wrong: '0:0' is not"),
    ):
        (tmp_path / "wrong").write_text(f"0-0\n{second}\n")
        for option in (["--gold"], ["--choose", paths["en"], paths["de"]]):
            with pytest.raises(SystemExit, match=message):
                main([*command, *option, str(tmp_path / "wrong")])


def test_view_writes_a_page_and_a_picture(tmp_path: Path) -> None:
    for name, start in (("page.html", b"<!DOCTYPE html>"), ("picture.png", b"\x89PNG")):
        main(["view", "attentional-rnn-g2p-cmudict", "attention", "-o", str(tmp_path / "new" / name)])
        assert (tmp_path / "new" / name).read_bytes().startswith(start)
    with pytest.raises(SystemExit, match="text is empty"):
        main(["view", "small-transformer-sotu-masked", " ", "-o", str(tmp_path / "page.html")])
    with pytest.raises(SystemExit, match="reads one text and has no target"):
        main(["view", "small-transformer-sotu-masked", "a", "--target", "b", "-o", str(tmp_path / "page.html")])


def test_shipped_models_are_the_folders_of_model_cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert sorted(SHIPPED) == sorted(path.name for path in (ROOT / "model_cards").iterdir() if path.is_dir())
    assert model_path(SENTIMENT) == str(ROOT / "model_cards" / SENTIMENT)
    with pytest.raises(ValueError, match="no trained model is named 'bert'"):
        model_path("bert")
    # Installed without its checkout, the package names what is missing.
    monkeypatch.setattr("attnzoo.shipped_models.__file__", str(tmp_path / "attnzoo" / "shipped_models.py"))
    with pytest.raises(FileNotFoundError, match=r"pip install \. \./model_cards"):
        model_path(SENTIMENT)
    with pytest.raises(SystemExit, match=r"error: the model .* pip install \. \./model_cards"):
        main(["publish", "--all", "owner", "--dry-run"])
