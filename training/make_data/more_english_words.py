r"""Words that the CMU dictionary lacks, with labels by its conventions, for the recipe ``g2p_arpabet_more_words``.

The words are those of misaki's American dictionaries, the names of the census of the United States (package ``names``),
and words by analogy with training words (:mod:`.analogies`). None is in the CMU dictionary, in any of its splits.

misaki's pronunciations are in other phones and follow other conventions: in place of CMUdict's ``IH0``, misaki mostly
has ``ə``. So a model translates them: it reads the word and misaki's pronunciation. It learns this from training words
that both dictionaries have. The label of a word is then the hypothesis with the greatest weighted sum of logarithms

.. math:: \sum_m w_m \log p_m(y | x)

over three models: the RNN of the recipe ``g2p_arpabet``; the translation, if misaki has the word; and
phonetisaurus (Novak et al., 2012, "WFST-Based Grapheme-to-Phoneme Conversion", W12-6208), n-grams of joint letters and
phonemes. All three know only training words of the CMU dictionary. Names are labelled without the translation. Words by
analogy are labelled by rules only. The commands, after ``attnzoo train g2p_arpabet``::

    python -m attnzoo.training.make_data.more_english_words pairs runs/misaki_and_cmudict
    attnzoo train g2p_misaki_as_cmudict --output runs/misaki_as_cmudict
    python -m attnzoo.training.make_data.more_english_words words runs/g2p_arpabet/best runs/misaki_as_cmudict/best \
        runs/more_words.tsv

Symbols: m is a model, :math:`w_m` its weight in ``WITH_TRANSLATION`` or ``WITHOUT_TRANSLATION``, in the order RNN,
translation, n-grams. The weights were chosen on the validation split. For a hypothesis that a model has not found, its
log p is the smallest that this model found, minus ``UNFOUND``.
"""

import importlib.util
import math
import random
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rapidfuzz.distance import Levenshtein
from tqdm.auto import tqdm

from attnzoo.batching import by_length
from attnzoo.commands.parsers import command_parser
from attnzoo.phone_sets import ACCENT_TOKENS, SILVER_TOKENS, written
from attnzoo.phonemes import CLOSE, OPEN, accent_and_spelling, known_phonemes
from attnzoo.pronunciation.engines import TorchEngine
from attnzoo.pronunciation.word_model import NO_HYPOTHESIS

from ..commands.exits import exit_on_user_error
from ..data.cmudict import WORD
from ..data.known import package_folder
from ..data.misaki import read_misaki
from ..data.pronunciations import PronunciationData
from ..loop.checkpoint import replacing, require_model, write_atomically
from ..tasks.grapheme_to_phoneme import GraphemeToPhoneme
from ..tasks.metrics import WordErrorRate
from .analogies import words_by_analogy

Listed = dict[str, list[str]]  # words with their pronunciations
Hypotheses = dict[str, dict[str, float]]  # for each word its pronunciations, with log p or joint log p

NAMES = ("dist.all.last", "dist.male.first", "dist.female.first")
BETWEEN = "|"  # a word and misaki's pronunciation of it
MOST_LETTERS = 24
BEAMS = 4
N_GRAM_HYPOTHESES, N_GRAM_BEAM = 10, 1000
WITH_TRANSLATION, WITHOUT_TRANSLATION = (0.4, 0.6, 0.35), (0.6, 0.0, 0.4)
UNFOUND = 1.5
ANALOGIES = 110_000
AT_A_TIME = 4000  # words


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser(
        "python -m attnzoo.training.make_data.more_english_words", "Write words that the CMU dictionary lacks."
    )
    steps = parser.add_subparsers(dest="step", required=True)
    pairs = steps.add_parser("pairs", help="write the data of the recipe g2p_misaki_as_cmudict")
    words = steps.add_parser("words", help="write the words with their labels")
    words.add_argument("rnn", type=Path, help="a checkpoint folder of g2p_arpabet")
    words.add_argument("translation", type=Path, help="a checkpoint folder of g2p_misaki_as_cmudict")
    pairs.add_argument("output", type=Path, help="the folder to write, with train.tsv and validation.tsv")
    words.add_argument("output", type=Path, help="the file to write, with the columns word and pronunciation")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        if options.step == "pairs":
            write_pairs(options.output)
        else:
            write_words(options.rnn, options.translation, options.output)


def write_pairs(output: Path) -> None:
    """Write the data of the recipe ``g2p_misaki_as_cmudict``.

    Raises:
        FileNotFoundError: a package is not installed.
        ValueError: ``output`` exists.
    """
    _require_new(output)
    splits = cmudict_splits()
    with replacing(output) as new:
        for split in ("train", "validation"):
            write_table(new / f"{split}.tsv", shared_words(splits[split]))
    print(f"{output}: the words that misaki and the CMU dictionary share")


def write_words(rnn: Path, translation: Path, output: Path) -> None:
    """Write the words that the CMU dictionary lacks, with labels by these two models and n-grams.

    Raises:
        FileNotFoundError: a package is not installed, or a model does not exist.
        ValueError: ``output`` exists, or phonetisaurus has no programs for this machine.
    """
    _require_new(output)
    for model in (rnn, translation):
        require_model(model)
    splits = cmudict_splits()
    known = {word for of_split in splits.values() for word in of_split}
    wanted = sorted(word for word in {*misaki_sources(), *names()} - known if len(word) <= MOST_LETTERS)
    with TemporaryDirectory() as folder:
        models = Models(rnn, translation, splits["train"], Path(folder) / "model.fst")
        report(models, splits["validation"])
        rows: list[tuple[str, str]] = []
        for start in tqdm(range(0, len(wanted), AT_A_TIME), desc="labelling"):
            rows += labels(*models.hypotheses(wanted[start : start + AT_A_TIME])).items()
    made = words_by_analogy(splits["train"], ANALOGIES, lambda word: word not in known, random.Random(0))
    write_table(output, [*rows, *made.items()])
    print(f"{output}: {len(rows):,} words with labels, and {len(made):,} by analogy")


def _require_new(output: Path) -> None:
    """Check that there is no such file yet, and make its folder: before the labelling, which takes long."""
    if output.exists():
        raise ValueError(f"{output} exists; remove it, or choose another output")
    output.parent.mkdir(parents=True, exist_ok=True)


def cmudict_splits() -> dict[str, Listed]:
    """The words of every split of the CMU dictionary, with stress."""
    task = GraphemeToPhoneme(PronunciationData(path="cmudict", stress="keep"))
    return {
        split: dict(zip(rows["word"][:], rows["pronunciations"][:], strict=True)) for split, rows in task.splits.items()
    }


def names() -> set[str]:
    """The first and last names of the census.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    folder = package_folder("names", "names")
    lines = [line for file in NAMES for line in (folder / file).read_text(encoding="utf-8").splitlines()]
    return {name for line in lines if WORD.fullmatch(name := line.split()[0].lower())}


def misaki_sources() -> Listed:
    """Every American word of misaki's with the source of the translation: its tier, the word, and a pronunciation.

    A word of the gold entries is not read from the silver ones.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    tiers: list[Listed] = []
    tokens = ACCENT_TOKENS["en-us"], SILVER_TOKENS["en-us"]
    for token, rows in zip(tokens, read_misaki(Path("misaki")).values(), strict=True):
        tiers.append({})
        for entry, sounds in zip(rows["word"], rows["pronunciation"], strict=True):
            accent, word = accent_and_spelling(entry.lower())
            if accent == token and WORD.fullmatch(word):
                tiers[-1].setdefault(word, []).append(f"{token}{word}{BETWEEN}{sounds.replace(' ', '')}")
    gold, silver = tiers
    return silver | gold


def shared_words(words: Listed) -> list[tuple[str, str]]:
    """The translation's sources of these words, each with the nearest of the word's pronunciations."""
    rows = []
    for word, sources in misaki_sources().items():
        for source in sources if word in words else ():
            ours = written(tuple(source.partition(BETWEEN)[2]), "kokoro", "ipa")
            distances = {
                listed: Levenshtein.distance(written(tuple(listed.split()), "arpabet", "ipa"), ours)
                for listed in words[word]
            }
            rows.append((source, min(distances, key=distances.__getitem__)))
    return rows


class Models:
    """The three models.

    Args:
        rnn: the folder of the RNN
        translation: the folder of the translation
        words: the training words, for the n-grams
        n_grams: the file of the n-grams, which is written

    Raises:
        FileNotFoundError: a package is not installed.
        ValueError: phonetisaurus has no programs for this machine.
    """

    def __init__(self, rnn: Path, translation: Path, words: Listed, n_grams: Path) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.rnn, self.translation = TorchEngine(rnn, device), TorchEngine(translation, device)
        self.sources, self.n_grams = misaki_sources(), NGrams(words, n_grams)

    def hypotheses(self, words: Collection[str]) -> tuple[Hypotheses, Hypotheses, Hypotheses]:
        """The hypotheses of the RNN, of the translation (only for misaki's words) and of the n-grams."""
        translated: Hypotheses = {}
        place = {source: word for word in words for source in self.sources.get(word, ())}
        for source, found in searched(self.translation, place).items():
            of_word = translated.setdefault(place[source], {})
            of_word.update({sounds: max(value, of_word.get(sounds, value)) for sounds, value in found.items()})
        return searched(self.rnn, words), translated, self.n_grams.hypotheses(words)


def labels(rnn: Hypotheses, translation: Hypotheses, n_grams: Hypotheses) -> dict[str, str]:
    """The best pronunciation of every word, except words for which the RNN or the n-grams find none."""
    return {
        word: best(found, translation.get(word, {}), n_grams[word])
        for word, found in rnn.items()
        if found and n_grams.get(word)
    }


def best(*models: Mapping[str, float]) -> str:
    """The hypothesis of three models with the greatest weighted sum; the second model may have none."""
    weights = WITH_TRANSLATION if models[1] else WITHOUT_TRANSLATION
    unfound = [min(model.values(), default=0.0) - UNFOUND for model in models]

    def value(sounds: str) -> float:
        parts = zip(weights, models, unfound, strict=True)
        return sum(weight * model.get(sounds, otherwise) for weight, model, otherwise in parts)

    return max(dict.fromkeys(sounds for model in models for sounds in model), key=value)


def searched(engine: TorchEngine, sources: Collection[str]) -> Hypotheses:
    """The results of a beam search for every source; none for a source with characters that the model does not know."""
    vocabulary = engine.tokenizer.get_vocab()
    phone_of = {vocabulary[f"{OPEN}{phone}{CLOSE}"]: phone for phone in known_phonemes(engine.tokenizer)}

    def search(batch: list[str]) -> Iterator[dict[str, float]]:
        sequences, scores = engine.search(batch, BEAMS, None)
        for row in range(0, len(sequences), BEAMS):
            found: dict[str, float] = {}
            for ids, score in zip(sequences[row : row + BEAMS], (scores or [])[row : row + BEAMS], strict=True):
                sounds = " ".join(phone_of[token] for token in ids if token in phone_of)
                if sounds and score > NO_HYPOTHESIS and engine.end in ids:
                    found[sounds] = max(score, found.get(sounds, -math.inf))
            yield found

    ordered = [source for source in sources if vocabulary.keys() >= {*accent_and_spelling(source)[1]}]
    return dict(zip(ordered, by_length(ordered, len, 192, search), strict=True))


class NGrams:
    """phonetisaurus's n-grams of joint letters and phonemes.

    Args:
        words: the training words with their pronunciations
        model: the file to write

    Raises:
        FileNotFoundError: the package is not installed.
        ValueError: phonetisaurus has no programs for this machine.
    """

    def __init__(self, words: Listed, model: Path) -> None:
        package_folder("phonetisaurus", "phonetisaurus")
        phonetisaurus = importlib.import_module("phonetisaurus")
        self.environment, self.model = phonetisaurus.guess_environment(), model
        self.program = shutil.which("phonetisaurus-g2pfst", path=self.environment["PATH"])
        if self.program is None:
            raise ValueError("phonetisaurus has no programs for this machine, only for Linux")
        pairs = {word: [one.split() for one in pronunciations] for word, pronunciations in words.items()}
        phonetisaurus.train(pairs, model, env=self.environment)

    def hypotheses(self, words: Collection[str]) -> Hypotheses:
        """The best pronunciations of every word whose letters are all known."""
        listed = self.model.with_suffix(".txt")
        listed.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        sizes = f"--nbest={N_GRAM_HYPOTHESES}", f"--beam={N_GRAM_BEAM}", "--thresh=99", "--accumulate=false"
        command = [str(self.program), f"--model={self.model}", f"--wordlist={listed}", *sizes]
        run = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        found: Hypotheses = {}
        for line in run.stdout.splitlines():
            word, cost, sounds = (*line.split("\t"), "", "")[:3]
            if sounds:
                of_word = found.setdefault(word, {})
                of_word[sounds] = max(-float(cost), of_word.get(sounds, -math.inf))
        return found


def report(models: Models, words: Listed) -> None:
    """Print the word error rates of the RNN, of the n-grams, and of all models together, on held-out words."""
    rnn, translation, n_grams = models.hypotheses(words)
    for name, found in (
        ("the RNN", {word: max(of, key=of.__getitem__) for word, of in rnn.items() if of}),
        ("the n-grams", {word: max(of, key=of.__getitem__) for word, of in n_grams.items()}),
        ("the labels", labels(rnn, translation, n_grams)),
    ):
        read = [found.get(word, "") for word in words]
        rate = WordErrorRate().compute(predictions=read, references=list(words.values()))["wer"]
        print(f"validation split, {len(words):,} words, {name}: WER {rate:.2f} %")


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write words and pronunciations as a table."""
    write_atomically(path, "\n".join(["word\tpronunciation", *(f"{word}\t{sounds}" for word, sounds in rows)]) + "\n")


if __name__ == "__main__":
    main()
