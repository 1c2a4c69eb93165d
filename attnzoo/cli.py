"""The command ``attnzoo``.

``pronounce``, ``translate``, ``summarize``, ``classify``, ``view`` and ``export`` are defined here, ``align`` in
``aligning/command.py``. The others are modules of the training code, imported when they are called.
"""

import argparse
import difflib
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, get_args

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)
from transformers.utils import logging

import attnzoo

from .aligning import command as align_command
from .command_line import (
    MODEL_HELP,
    command_parser,
    folder_of,
    lines_of,
    plain_parser,
    require_utf8,
    texts_of,
    with_progress,
)
from .shipped_models import SENTIMENT, SUMMARIES, TRANSLATION
from .viewer import plot_alignments, save_page
from .viewer.pictures import require_page, require_picture
from .viewer.predictions import label_of


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    listed = "\n".join(f"  {name:<12} {text}" for name, (text, _) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="attnzoo",
        description="Attention models, from Bahdanau's alignment to the Transformer.",
        epilog=f"commands:\n{listed}\n\n"
        "Help on one command: attnzoo COMMAND --help. Example: attnzoo pronounce philosophy",
        usage="attnzoo [--help] [--version] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"attnzoo {attnzoo.__version__}")
    parser.add_argument("command", metavar="COMMAND", nargs="?", help=argparse.SUPPRESS)
    command = parser.parse_args(arguments[:1]).command
    if command is None:
        parser.print_help()
        return
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        parser.error(f"no command {command!r}; " + (f"did you mean {close[0]!r}?" if close else "see attnzoo --help"))
    run = COMMANDS[command][1]
    if isinstance(run, str):  # of the training code, which reports its users' errors itself
        try:
            run = importlib.import_module(run).main
        except ModuleNotFoundError as error:
            parsers = importlib.import_module("attnzoo.training.commands").PARSERS
            if command in parsers:
                parsers[command]().parse_args(arguments[1:])  # --help ends here: it needs no package
            _exit_without_package(command, error, "train")
        run(arguments[1:])
        return
    logging.disable_progress_bar()
    try:
        run(arguments[1:])
    except (OSError, ValueError, StrictDataclassError) as error:  # the user can correct it, so no traceback
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "attnzoo":
            raise
        sys.exit(f"error: {error}")


def _exit_without_package(command: str, error: ModuleNotFoundError, extra: str) -> NoReturn:
    """Name the package that a command lacks, and the extra that installs it."""
    if (error.name or "").partition(".")[0] == "attnzoo":
        raise error
    install = f"pip install 'attnzoo[{extra}]'"
    sys.exit(f"error: attnzoo {command} needs the package {error.name!r}, which is not installed: {install}")


def pronounce(arguments: list[str]) -> None:
    """``attnzoo pronounce``: a line for every word, or for each of its n best pronunciations, or for every text."""
    from .pronunciation import Pronouncer  # the other commands do without it
    from .pronunciation.engines import EngineName
    from .pronunciation.phone_sets import PHONE_SETS, SOURCE_OF_IPA

    example = "attnzoo pronounce blorptastic --n-best 3"
    parser = command_parser("pronounce", COMMANDS["pronounce"][0], example, None, "word", "pronunciations")
    parser.add_argument("--file", type=Path, help="read a word from each line of this file, with a progress bar")
    parser.add_argument("--sentence", action="store_true", help="read whole texts; print a line of phonemes for each")
    columns = "plain (default): word and phonemes, and with --n-best the confidence; an unknown word is an empty line. "
    columns += "tsv: word, phonemes, source and confidence, unquoted"
    parser.add_argument("--output", choices=("plain", "tsv"), default="plain", help=columns)
    parser.add_argument("--accent", choices=SOURCE_OF_IPA, help="default: en-us; not for a model without accents")
    parser.add_argument("--phones", choices=PHONE_SETS, default="arpabet", help="default: %(default)s")
    parser.add_argument("--lexicon", type=Path, metavar="FILE", help="your words: lines of a word, a tab, its --phones")
    listed = "do not look words up in the dictionary of an installed package; the default with --model"
    parser.add_argument("--no-dictionary", dest="dictionary", action="store_const", const=False, help=listed)
    engines = "onnx-int8 is the fastest on a processor; needs attnzoo[export] (default: torch, or onnx for an export)"
    parser.add_argument("--engine", choices=get_args(EngineName), help=engines)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the alignments of the first four words")
    options = parser.parse_intermixed_args(arguments)
    if options.file and options.texts:
        raise ValueError(f"--file reads the words from {options.file}, got {options.texts[0]!r} too; leave one out")
    if options.plot:
        require_picture(options.plot)
    if options.sentence and (options.output != "plain" or options.n_best != 1):
        raise ValueError("--sentence prints one line of phonemes for a text: leave --output and --n-best out")
    lines = [line.strip() for line in (lines_of(options.file) if options.file else texts_of(options, "word"))]
    if options.file and not any(lines):
        raise ValueError(f"{options.file} has no words; write a word on each line, or a text with --sentence")
    folder = options.model and folder_of(options.model, "pronounce")
    sources = options.accent, options.phones, options.lexicon, options.dictionary, folder
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pronouncer = Pronouncer(*sources, device=device, engine=options.engine)
    if options.sentence:
        words: Iterable[Any] = _print_texts(pronouncer, with_progress(lines, options.file), options.num_beams)
    else:
        if options.output == "tsv":
            print("word", "phonemes", "source", "confidence", sep="\t")
        words = pronouncer.stream(lines, n_best=options.n_best, num_beams=options.num_beams)
        words = _print_words(with_progress(words, options.file, len(lines)), options)
    errors = [pronouncer.reason(word.text) for word in words if word.text and word.phonemes is None]
    shown = pronouncer.words([*filter(None, lines)][:4], alignments=True) if options.plot else []
    drawn = [(pair.weights, pair.source_words, pair.target_words) for word in shown for pair in word.alignments if pair]
    if drawn:
        weights, source, target = zip(*drawn, strict=True)
        plot_alignments(weights, source, target, options.plot)
    elif options.plot:
        errors.append(f"{options.plot} is not drawn: no letters and phonemes of the first four words are aligned")
    _exit_if_unreadable(errors)


def _print_words(words: Iterable[Any], options: argparse.Namespace) -> Iterator[Any]:
    """The words, each of them printed with its pronunciations."""
    for word in words:
        variants = word.variants[: options.n_best] if options.n_best > 1 and word.variants else (word,)
        for one in variants:
            confidence = "" if one.confidence is None else f"{one.confidence:.4f}"
            columns = [re.sub(r"\s", " ", word.text), one.phonemes or ""]
            if options.output == "tsv":
                print(*columns, word.source, confidence, sep="\t")
            elif word.phonemes is None:
                print()  # the output has a line for every line of the input
            else:
                print(*columns, *([confidence] if options.n_best > 1 else []), sep="\t")
        yield word


def _print_texts(pronouncer: Any, texts: Iterable[str], num_beams: int | None) -> Iterator[Any]:
    """The words of all texts; the phonemes of each text are printed on a line."""
    for text in texts:
        words = pronouncer(text, num_beams=num_beams)
        print(pronouncer.join(words))
        yield from words


def translate(arguments: list[str]) -> None:
    """``attnzoo translate``: a line for every sentence, or for each of its n best translations."""
    example = 'attnzoo translate "Two dogs are playing in the snow."'
    parser = command_parser("translate", COMMANDS["translate"][0], example, TRANSLATION, "sentence", "translations")
    _print_targets(parser.parse_intermixed_args(arguments), "translate", "sentence", "machine-translation")


def summarize(arguments: list[str]) -> None:
    """``attnzoo summarize``: a line for every text, or for each of its n best summaries."""
    example = 'attnzoo summarize "Quux is a library for PNG images."'
    parser = command_parser("summarize", COMMANDS["summarize"][0], example, SUMMARIES, "text", "summaries")
    _print_targets(parser.parse_intermixed_args(arguments), "summarize", "text", "text-summarization")


def _print_targets(options: argparse.Namespace, command: str, what: str, task: str) -> None:
    """The targets of all sources, by the pipeline of this task."""
    sentences = texts_of(options, what)
    pipe: Any = pipeline(task, model=folder_of(options.model, command))  # type: ignore[call-overload]  # ours
    beams = {} if options.num_beams is None else {"num_beams": options.num_beams}
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
        found = pipe(sentences, n_best=options.n_best, errors="skip", **beams)
    for targets in found:
        if "error" in targets[0]:
            print()  # the output has a line for every line of the input
            continue
        for target in targets:
            score = [f"{target['score']:.2f}"] if len(targets) > 1 else []
            print(target[pipe.target_key], *score, sep="\t")
    _exit_if_unreadable([t[0]["error"] for s, t in zip(sentences, found, strict=True) if s and "error" in t[0]])


def _exit_if_unreadable(errors: list[str]) -> None:
    """Print why sources could not be read, after the results of the others."""
    if errors:
        print(*(f"error: {message}" for message in errors), sep="\n", file=sys.stderr)
        sys.exit(1)


def classify(arguments: list[str]) -> None:
    """``attnzoo classify``: the label of every sentence, and on request the page of ``attnzoo view``."""
    more = "For a model of sentence pairs, put a tab between the two sentences."
    example = 'attnzoo classify "A moving film." --html film.html'
    parser = command_parser("classify", COMMANDS["classify"][0], example, SENTIMENT, "sentence", more=more)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page of attnzoo view, with all sentences")
    options = parser.parse_intermixed_args(arguments)
    if options.html is not None:
        require_page(options.html)
    sentences = [sentence for sentence in texts_of(options, "sentence") if sentence.strip()]
    folder = folder_of(options.model, "classify")
    model, report = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    if missing := ", ".join(sorted(report["missing_keys"])):
        raise ValueError(f"{options.model} is not a classifier: it has no weights {missing}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    views = []
    sides = 2 if "token_type_ids" in tokenizer.model_input_names else 1
    for sentence in sentences:
        texts = sentence.split("\t")
        if len(texts) != sides:
            expected = "two sentences with a tab between them" if sides == 2 else "one sentence, without a tab"
            raise ValueError(f"{options.model} reads {expected}, got {sentence!r}")
        for text in texts:
            read = tokenizer.tokenize(text, verbose=False)
            known = [token for token in read if token != tokenizer.unk_token]
            if (known != read or not read) and not any(map(str.isalnum, "".join(known))):
                reason = "has no word that this model knows; its label is meaningless"
                print(f"warning: {text!r} {reason}", file=sys.stderr)
        batch = tokenizer(*([text] for text in texts), return_tensors="pt", verbose=False)
        with torch.no_grad():
            logits = model(**batch).logits[0]
        print(f"{label_of(logits, model.config)}\t{sentence}")
        if options.html is not None:
            views.append(attnzoo.view(model, tokenizer, tuple(texts) if sides == 2 else sentence))
    if views:
        save_page(views, options.html)


def view_text(arguments: list[str]) -> None:
    """``attnzoo view``: the attention of any model on one text, as an interactive page or a picture."""
    description = "Show the attention of any model of Transformers or attnzoo on one text, as a page or a picture."
    example = "attnzoo view attentional-rnn-g2p-cmudict phlegmatic -o page.html"
    parser = plain_parser("view", description, example)
    parser.add_argument("model", metavar="FOLDER", help=MODEL_HELP)
    parser.add_argument("text", metavar="TEXT", help="for a model of pairs: two texts with a tab between them")
    page = "the page to write (.html), or a picture of all heads (.png, .pdf, .svg)"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=page)
    parser.add_argument("--target", metavar="TEXT", help="default: an encoder-decoder generates it")
    parser.add_argument("--layers", type=int, nargs="+", metavar="N", help="from 0; default: all layers")
    options = parser.parse_args(arguments)
    require_utf8([options.text], "text")
    require_utf8([options.target or ""], "target")
    is_page = options.output.suffix.lower() in (".html", ".htm")
    (require_page if is_page else require_picture)(options.output)
    folder = folder_of(options.model, "view")
    config = AutoConfig.from_pretrained(folder)
    heads = " ".join(config.architectures or ())
    auto_class: Any = AutoModel
    if config.is_encoder_decoder:
        auto_class = AutoModelForSeq2SeqLM
    elif "CausalLM" in heads or "LMHead" in heads:
        auto_class = AutoModelForCausalLM
    elif "MaskedLM" in heads:
        auto_class = AutoModelForMaskedLM
    elif "SequenceClassification" in heads:
        auto_class = AutoModelForSequenceClassification
    model, tokenizer = auto_class.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    pair = options.text.split("\t")
    text = tuple(pair) if len(pair) == 2 else options.text
    found = attnzoo.view(model, tokenizer, text, options.target, options.layers)
    (found.save if is_page else found.plot)(options.output)


def export(arguments: list[str]) -> None:
    """``attnzoo export``: a folder that runs a model without torch, with a certificate that it does what torch does."""
    description = "Export a model, so that it runs without torch, and compare the export with the model."
    parser = plain_parser("export", description, "attnzoo export attentional-rnn-g2p-cmudict g2p-onnx --weights int8")
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("folder", type=Path, help="for the export; not there yet, or empty")
    parser.add_argument("--format", choices=("onnx", "ctranslate2"), default="onnx", help="default: %(default)s")
    precisions = ("float32", "float16", "int8")
    parser.add_argument("--weights", choices=precisions, default="float32", help="default: %(default)s")
    data = "change the recipe, such as task.data.path=FOLDER: where the texts are that the export is compared on"
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=data)
    parser.add_argument("--check", action="store_true", help="compare an export with its model again; write nothing")
    parser.add_argument("--examples", type=int, help="texts of the model's test split to score (default: all)")
    options = parser.parse_args(arguments)
    if options.examples is not None and options.examples < 1:
        raise ValueError(f"--examples must be at least 1, got {options.examples}")
    source = folder_of(options.model, "export")
    try:
        from .export.certificate import figures
        from .export.command import export_folder
    except ModuleNotFoundError as error:
        _exit_without_package("export", error, "export")

    task = _test_examples(source, options.examples, options.set)
    certificate = export_folder(source, options.folder, options.format, options.weights, task, options.check)
    for figure in figures(certificate):
        print(*figure, sep="\t")


def _test_examples(source: str, number: int | None, overrides: list[str]) -> Any:
    """The task of a model's recipe with its test split, or so many rows of it; None if its data is not here."""
    try:
        task = importlib.import_module("attnzoo.training.evaluate").task_for(Path(source), overrides, "test")
    except (ModuleNotFoundError, OSError, ValueError) as error:
        print(f"the export is compared on random tokens only: {error}", file=sys.stderr)
        return None
    if number is not None:
        task.splits["test"] = task.splits["test"].select(range(min(number, len(task.splits["test"]))))
    return task


# For each command: its help text, and a function here or the name of a module that has main().
COMMANDS: dict[str, tuple[str, Callable[[list[str]], None] | str]] = {
    "pronounce": ("pronounce words", pronounce),
    "translate": ("translate sentences", translate),
    "summarize": ("summarise texts in one line", summarize),
    "classify": ("classify sentences", classify),
    "view": ("show the attention of any model on a text", view_text),
    "align": (align_command.HELP, align_command.main),
    "export": ("export a model, so that it runs without torch", export),
    "train": ("train a recipe", "attnzoo.training.train"),
    "tune": ("search for a better recipe", "attnzoo.training.tune"),
    "evaluate": ("measure a checkpoint on its test split", "attnzoo.training.evaluate"),
    "faithfulness": ("test what the attention of a model explains", "attnzoo.training.studies.faithfulness"),
    "release": ("turn a finished run into a folder to publish: model, scores and card", "attnzoo.training.release"),
    "card": ("write a released model's card again", "attnzoo.training.card"),
    "claims": ("check what papers and tutorials claim of attention", "attnzoo.training.studies.claims.command"),
    "publish": ("push a folder to the Hugging Face Hub, and verify it", "attnzoo.training.publish"),
}

if __name__ == "__main__":
    main()
