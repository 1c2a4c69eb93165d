"""Make the weights of ``attentional-rnn-g2p-cmudict``: ``python -m attnzoo.training.english_weights model_cards/NAME``.

One command for all of docs/pronunciation.md, "How the weights were made". Its steps, each in a folder or file of
``--runs``; a training has the name of its recipe:

1. ``g2p_arpabet``: 14,000 of the 24,000 steps of the recipe, on the CMU dictionary alone
2. ``pairs``: words with misaki's and the CMU dictionary's pronunciations; ``g2p_misaki_as_cmudict`` learns from them
3. ``more_words.tsv``: words that the dictionary lacks, labelled by these two models and n-grams
   (``make_data/more_english_words.py``)
4. ``g2p_arpabet_more_words``, which starts from the first model and learns these words
5. ``g2p_arpabet_long_words_71``, ``_72`` and ``_82``, which start from the fourth step's model, with three seeds,
   learning rates and dropouts
6. the mean of some of the last four: they are tried in the order of their WER, and each is kept if the mean with it is
   not worse (Wortsman et al., 2022, "Model soups", arXiv:2203.05482, section 2, the greedy soup)
7. the release of this mean, with calibrated confidences

Every choice is made on the validation split alone; only the release reads the test split. Finished trainings and word
lists are skipped, and an interrupted training is resumed, so the same command continues. It needs the packages misaki,
names and phonetisaurus. It takes about four hours on an Intel Xeon with AMX: an hour and a half on one core, the rest
on two.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from attnzoo.commands.parsers import add_overrides, command_parser

from .commands.exits import exit_on_user_error
from .data.known import package_folder
from .evaluate import evaluate
from .loop.average import average
from .make_data.more_english_words import misaki_sources, names, write_pairs, write_words
from .recipe import load_recipe, make_task
from .release import release
from .studies.word_confidence import calibrate
from .tasks.base import Task
from .tasks.grapheme_to_phoneme import GraphemeToPhoneme
from .train import train_once

NOTE = (
    "It also learned {count:,} words that the dictionary lacks: words of misaki's dictionaries (Apache-2.0) and names "
    "of the census of the United States (package `names`, MIT), labelled by models, and words by analogy. "
    "docs/pronunciation.md describes the trainings, which are one command: "
    "`python -m attnzoo.training.english_weights FOLDER`."
)
# Of the last trainings: the seed, the learning rate and the dropout.
LAST = ((71, 3e-4, 0.15), (72, 8e-4, 0.2), (82, 5e-4, 0.25))
BEAMS = 5


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.english_weights", __doc__.partition(":")[0] + ".")
    parser.add_argument("folder", type=Path, help="the folder of the release")
    parser.add_argument("--runs", type=Path, default=Path("runs/english"), help="(default: %(default)s)")
    add_overrides(parser, "change all recipes, for example training.max_steps=3")
    options = parser.parse_args(arguments)
    with exit_on_user_error("the same command continues"):
        make(options.folder, options.runs, options.set)


def make(folder: Path, runs: Path, overrides: Sequence[str] = ()) -> None:
    """Do the steps that are not done yet, and release.

    Args:
        folder: the folder of the release
        runs: the folder of all steps
        overrides: of all recipes

    Raises:
        FileNotFoundError: a package is not installed. Nothing has been trained.
        ValueError: a folder of ``runs`` has a run of another recipe.
        StoppedError: SIGTERM, Ctrl-C or a closed terminal; the last step of the training is saved.
    """
    misaki_sources(), names(), package_folder("phonetisaurus", "phonetisaurus")

    def trained(name: str, *settings: str, end: str = "") -> Path:
        recipe, run = load_recipe(name, [*settings, *overrides]), runs / f"{name}{end}"
        train_once(recipe, make_task(recipe), run)
        return run / "best"

    first = trained("g2p_arpabet", "training.max_steps=14000")
    pairs, words = runs / "pairs", runs / "more_words.tsv"
    if not pairs.exists():
        write_pairs(pairs)
    translation = trained("g2p_misaki_as_cmudict", f"task.data.path={pairs}")
    if not words.exists():
        write_words(first, translation, words)
    learning = f"task.data.extra_words={words}", f"training.start_from={first}"
    candidates = [trained("g2p_arpabet_more_words", *learning)]
    start = f"training.start_from={candidates[0]}"
    for seed, rate, dropout in LAST:
        own = f"training.seed={seed}", f"training.learning_rate={rate}", f"model.dropout={dropout}"
        candidates.append(trained("g2p_arpabet_long_words", start, *own, end=f"_{seed}"))
    task = make_task(load_recipe("g2p_arpabet"))
    assert isinstance(task, GraphemeToPhoneme)  # which is the task of this recipe
    best, *others = best_mean(candidates, task)
    with words.open(encoding="utf-8") as table:
        count = len({line.partition("\t")[0] for line in table}) - 1  # without the header
    release(best.parent, folder, note=NOTE.format(count=count), average_with=others)
    calibrate(folder, task, BEAMS)


def best_mean(candidates: Sequence[Path], task: Task) -> list[Path]:
    """The checkpoints of the greedy soup, the best one first.

    A checkpoint is kept if the mean of the weights with it has no higher WER on the validation split than without it.
    """
    alone = {path: evaluate(path, task, "validation")["wer"] for path in candidates}
    best, *others = sorted(alone, key=alone.__getitem__)
    chosen, least = [best], alone[best]
    for path in others:
        with TemporaryDirectory() as place:
            average([*chosen, path], Path(place) / "mean")
            rate = evaluate(Path(place) / "mean", task, "validation")["wer"]
        print(f"{path.parent.name}: WER {alone[path]:.2f} % on the validation split, the mean with it {rate:.2f} %")
        if rate <= least:
            chosen, least = [*chosen, path], rate
    print(f"chosen: {', '.join(path.parent.name for path in chosen)}: WER {least:.2f} %")
    return chosen


if __name__ == "__main__":
    main()
