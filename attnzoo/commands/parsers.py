"""The parsers of the commands that use a model. The others are in ``training/commands/parsers.py``.

Neither torch nor Transformers is imported here. So the values of some options are repeated from the modules that have
their meaning; a test compares them.
"""

import argparse
from pathlib import Path

from ..grading.assignment import HINTS
from ..grading.formats import AUTOGRADER, OF_SOLUTION, OF_SUBMISSION
from ..shipped_models import SENTIMENT, SUMMARIES, TRANSLATION

MODEL_HELP = "a folder, the name of a model that comes with attnzoo, or owner/name on the Hub"
ACCENTS = ("en-us", "en-gb")
PHONES = ("arpabet", "kokoro", "ipa")
ENGINES = ("torch", "onnx", "onnx-int8")
SYMMETRISATIONS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")


def command_parser(name: str, description: str, example: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command, whose help ends with an example: the name, and after it ``example``."""
    epilog = example and f"example: {name} {example}"
    return argparse.ArgumentParser(prog=name, description=description, epilog=epilog)


def add_overrides(parser: argparse.ArgumentParser, purpose: str = "change the recipe") -> None:
    """Add the option ``--set``, which may be repeated."""
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=purpose)


def add_model(parser: argparse.ArgumentParser, model: str | None) -> None:
    """Add the option ``--model`` with this default; None is the model that pronounces with the other options."""
    default = "the model of the accent and the phones" if model is None else "%(default)s"
    parser.add_argument("--model", default=model, help=f"{MODEL_HELP} (default: {default})")


def add_texts(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the arguments and the option that name the texts, which are called ``what``."""
    parser.add_argument("texts", nargs="*", metavar=what.upper(), help=f"default: read a {what} from each line")
    parser.add_argument("--file", type=Path, help=f"read a {what} from each line of this file, with a progress bar")


def add_search(parser: argparse.ArgumentParser, results: str, of_each: str = "log p") -> None:
    """Add the options of a search for ``results``; ``of_each`` is what is printed beside each of several."""
    many = f"number of {results} (default: 1); of several, each has its {of_each}"
    parser.add_argument("--n-best", type=int, default=1, help=many)
    parser.add_argument("--num-beams", type=int, help="width of the beam search (default: the model's)")


def list_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo list``."""
    description = "List the trained models, the smallest first; with the name of one, the lines that load it."
    parser = command_parser("attnzoo list", description, "--language sv --license commercial")
    parser.add_argument("pattern", nargs="?", default="*", metavar="NAME", help="a name, or a pattern such as '*g2p*'")
    parser.add_argument("--task", help="a task, such as translation or grapheme-to-phoneme")
    parser.add_argument("--paper", help="a paper that the model follows, such as luong2015, or a part of its title")
    parser.add_argument("--language", help="a code of ISO 639, such as sv")
    allowed = "a licence, such as MIT; or commercial: all models that may be redistributed and sold; or not-commercial"
    parser.add_argument("--license", help=allowed)
    size = "the size of the weights, at most, such as 3.4e6 for 3.4 MB"
    parser.add_argument("--max-bytes", type=float, metavar="BYTES", help=size)
    parser.add_argument("--json", action="store_true", help="print all that is known of each model")
    return parser


def pronounce_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo pronounce``."""
    parser = command_parser("attnzoo pronounce", "Pronounce words.", "blorptastic --n-best 3")
    add_texts(parser, "word")
    add_model(parser, None)
    add_search(parser, "pronunciations", "confidence")
    parser.add_argument("--sentence", action="store_true", help="read whole texts; print a line of phonemes for each")
    columns = "plain (default): word and phonemes, and with --n-best the confidence; an unknown word is an empty line. "
    columns += "tsv: word, phonemes, source and confidence, unquoted"
    parser.add_argument("--output", choices=("plain", "tsv"), default="plain", help=columns)
    parser.add_argument("--accent", choices=ACCENTS, help="default: en-us; not for a model without accents")
    parser.add_argument("--phones", choices=PHONES, help="default: arpabet, or ipa with --language")
    language = "of a model of several languages: a tag such as hu, pt-BR or sr-Cyrl, or the name of a dictionary"
    parser.add_argument("--language", metavar="TAG", help=language)
    parser.add_argument("--lexicon", type=Path, metavar="FILE", help="your words: lines of a word, a tab, its --phones")
    listed = (
        "look up no words: not in an installed dictionary, not among 3,000 frequent words; the default with --model"
    )
    parser.add_argument("--no-dictionary", dest="dictionary", action="store_const", const=False, help=listed)
    engines = "onnx-int8 is the fastest on a CPU; both onnx engines need the extra export "
    engines += "(default: torch, or onnx for an exported model)"
    parser.add_argument("--engine", choices=ENGINES, help=engines)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the alignments of the first four words")
    return parser


def translate_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo translate``."""
    example = '"Two dogs are playing in the snow."'
    parser = command_parser("attnzoo translate", "Translate sentences.", example)
    add_texts(parser, "sentence")
    add_model(parser, TRANSLATION)
    add_search(parser, "translations")
    return parser


def summarize_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo summarize``."""
    example = '"Quux is a library for PNG images."'
    parser = command_parser("attnzoo summarize", "Summarise texts in one line.", example)
    add_texts(parser, "text")
    add_model(parser, SUMMARIES)
    add_search(parser, "summaries")
    return parser


def classify_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo classify``."""
    description = "Classify sentences. For a model of sentence pairs, put a tab between the two sentences."
    parser = command_parser("attnzoo classify", description, '"A moving film." --html film.html')
    add_texts(parser, "sentence")
    add_model(parser, SENTIMENT)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that shows the attention to words")
    return parser


def view_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo view``."""
    description = "Show the attention of any model of Transformers or attnzoo on one text, as a page or a picture."
    example = "attentional-rnn-g2p-cmudict phlegmatic -o page.html"
    parser = command_parser("attnzoo view", description, example)
    parser.add_argument("model", metavar="FOLDER", help=MODEL_HELP)
    parser.add_argument("text", metavar="TEXT", help="for a model of pairs: two texts with a tab between them")
    page = "the page to write (.html), or a picture of all heads (.png, .pdf, .svg)"
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=page)
    parser.add_argument("--target", metavar="TEXT", help="default: an encoder-decoder generates it")
    parser.add_argument("--layers", type=int, nargs="+", metavar="N", help="from 0, or -1 for the last; default: all")
    return parser


def check_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo check``."""
    description = (
        "Check attention code by its properties, in a process of its own with limits, and give points. "
        "The exit code is 1 if a property does not hold; for Gradescope it is 0, since the score is in the result."
    )
    example = "attention.py:Attention --kind self_attention --format junit -o result.xml"
    parser = command_parser("attnzoo check", description, example)
    parser.add_argument(
        "code", metavar="FILE.py:NAME", help="a class, made with the assignment's arguments; a module; or a function"
    )
    kinds = "attention, self_attention, mask, loss, encoder, decoder_step, language_model or encoder_decoder"
    parser.add_argument("--kind", help=f"{kinds} (default: that of the assignment)")
    parser.add_argument("--paper", help="compare the values of a step with this paper's, such as bahdanau2014")
    told = "how the step is called: 'token, state, keys, mask -> logits, state, alignment'"
    told += " (default: by the names of the arguments)"
    parser.add_argument("--call", metavar="LINE", help=told)
    assignment = "YAML with kind, arguments, options, points of each property, hints, seconds, megabytes, seed"
    parser.add_argument("--assignment", type=Path, metavar="FILE", help=assignment)
    written = (
        "otter and nbgrader write tests for a notebook, gradescope-zip an autograder to upload, from a solution "
        "(default: text)"
    )
    formats = (*OF_SUBMISSION, *OF_SOLUTION, AUTOGRADER)
    parser.add_argument("--format", choices=formats, default="text", help=written)
    hints = "what is told: that something is wrong, which property, or where and why"
    hints += " (default: that of the assignment, or where)"
    parser.add_argument("--hints", choices=HINTS, help=hints)
    parser.add_argument(
        "--seconds", type=int, help="of one core that the code may take (default: that of the assignment, or 60)"
    )
    parser.add_argument(
        "--megabytes", type=int, help="of memory that the code may take (default: that of the assignment, or 2000)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a file to write (default: print); gradescope-zip needs it"
    )
    return parser


def assignment_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo assignment``."""
    description = (
        "Write the exercise of a lesson into a new folder: the file for students, a solution, the points of each "
        "property, and a note for the teacher with the commands that grade it."
    )
    parser = command_parser("attnzoo assignment", description, "2 additive")
    parser.add_argument("lesson", type=int, choices=range(1, 6), help="the lesson, 1 to 5")
    parser.add_argument("folder", type=Path, help="a new folder")
    return parser


def align_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo align``."""
    description = (
        "Align the words of given pairs. "
        "Prints a line for every pair: 0-0 1-2 means source word 0 is linked with target word 0, and 1 with 2. "
        "The files may have any size: they are read in batches, and a progress bar goes to standard error."
    )
    parser = command_parser("attnzoo align", description, "en.txt de.txt --words")
    add_model(parser, TRANSLATION)
    parser.add_argument("sources", type=Path, help="a text file with one source sentence on each line")
    parser.add_argument("targets", type=Path, help="a text file with the translations, on the same lines")
    parser.add_argument("--words", action="store_true", help="link words (split at white space), not tokens")
    parser.add_argument("--gold", type=Path, help="gold links; print the alignment error rate to standard error")
    shifts = "0: a step aligns the token it predicts; 1: the token it reads; paper: as in the paper (default: 0)"
    parser.add_argument("--shift", choices=("0", "1", "paper"), default="0", help=shifts)
    parser.add_argument("--layer", type=int, default=-1, help="a layer of the decoder, from 0 (default: the last)")
    parser.add_argument("--head", type=int, help="a head of the layer, from 0 (default: the mean of the layer's heads)")
    chosen = "choose heads and shift with these sources, targets and gold links, and print them to standard error"
    parser.add_argument("--choose", type=Path, nargs=3, metavar=("SOURCES", "TARGETS", "LINKS"), help=chosen)
    reverse = "a model of the other direction; its links and those of --model are symmetrised (needs --words)"
    parser.add_argument("--reverse", metavar="MODEL", help=reverse)
    symmetrised = "with --reverse (default: grow-diag-final-and)"
    parser.add_argument("--symmetrise", choices=SYMMETRISATIONS, help=symmetrised)
    parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--scores", action="store_true", help="put log p(target | source) and a tab before every line")
    return parser


def import_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo import``."""
    description = (
        "Read a translation model of Firefox, and write it as a folder for the Hub. "
        "With --verify, Mozilla's engine and the model translate the same sentences, and how many translations are "
        "equal is printed."
    )
    parser = command_parser("attnzoo import", description, "firefox models/enhu firefox-en-hu --verify sentences.txt")
    parser.add_argument("form", choices=("firefox",), help="where the model comes from")
    parser.add_argument("source", metavar="FOLDER", help="with the model and its .spm; or owner/name on the Hub")
    parser.add_argument("folder", type=Path, metavar="OUT", help="not there yet, or empty")
    parser.add_argument("--pair", metavar="EN-HU", help="the languages, which choose the model and stand in the card")
    parser.add_argument("--subfolder", default="", help="that has the model, where FOLDER has several of a pair")
    parser.add_argument("--license", help="the licence's id on the Hub (default: as the files say, or mpl-2.0)")
    verify = "a file with a sentence of the source language on each line"
    parser.add_argument("--verify", type=Path, metavar="SENTENCES", help=verify)
    engine = "the Python interpreter of an environment with the package fxtranslate (default: this one)"
    parser.add_argument("--engine", default=None, metavar="PYTHON", help=engine)
    return parser


def export_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo export``."""
    description = "Export a model, so that it runs without torch, and compare the export with the model."
    example = "attentional-rnn-g2p-cmudict g2p-onnx --weights int8"
    parser = command_parser("attnzoo export", description, example)
    parser.add_argument("model", help=MODEL_HELP)
    parser.add_argument("folder", type=Path, help="for the export; not there yet, or empty")
    formats = ("onnx", "ctranslate2", "firefox")
    parser.add_argument("--format", "--to", choices=formats, default="onnx", help="default: %(default)s")
    precisions = ("float32", "float16", "int8")
    parser.add_argument("--weights", choices=precisions, help="default: float32; for Firefox int8")
    sentences = "needed for Firefox: some hundred sentences, one on each line, to find scales and to compare"
    parser.add_argument("--sentences", type=Path, metavar="FILE", help=sentences)
    data = "change the recipe, such as task.data.path=FOLDER: where the texts are that the export is compared on"
    add_overrides(parser, data)
    parser.add_argument("--check", action="store_true", help="compare an export with its model again; write nothing")
    parser.add_argument("--examples", type=int, help="texts to score, evenly from the test split (default: all)")
    return parser
