r"""How far the confidence of a model of pronunciation can be trusted, and the calibration that makes it so.

``python -m attnzoo.training.studies.word_confidence runs/g2p/best --save``

The confidence of a word is that of the best pronunciation that the beam search found
(:func:`attnzoo.pronunciation.confidences`). Its temperature and bias are fitted on the validation split: those with the
least log loss of "the most probable pronunciation is right"; the bias is 0 if the words are too few to tell it. On the
test split the study prints the figures of the pronunciations that ``attnzoo pronounce`` gives, and two others:

- ECE, the expected calibration error (Guo et al., 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599,
  section 2): words are sorted by confidence into 15 bins of equal size; the mean over the bins of how far the mean
  confidence is from the share of right words;
- AUROC: the probability that a right word has more confidence than a wrong one.

``--save`` writes them into the folder's ``config.json``, as ``confidence_temperature`` and ``confidence_bias``.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.metrics import log_loss, roc_auc_score

from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.phone_sets import Phones
from attnzoo.phonemes import accent_and_spelling
from attnzoo.pronunciation import confidences
from attnzoo.pronunciation.word_model import WordModel, phones_first

from ..card import describe
from ..commands.exits import exit_on_user_error
from ..loop.checkpoint import require_model, update_config
from ..recipe import checkpoint_recipe, make_task
from ..tasks.grapheme_to_phoneme import GraphemeToPhoneme

BINS = 15
TEMPERATURES, BIASES = (0.05, 20.0), (-10.0, 10.0)  # the lowest and the highest that are tried
Calibration = tuple[float, float]  # temperature and bias
NONE: Calibration = (1.0, 0.0)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.word_confidence", "Calibrate confidences of words.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder of a model of pronunciation")
    parser.add_argument("--num-beams", type=int, help="default: what the folder's generation config says")
    parser.add_argument("--save", action="store_true", help="write temperature and bias into the folder's config.json")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        task = make_task(checkpoint_recipe(options.folder, options.set))
        if not isinstance(task, GraphemeToPhoneme):
            raise ValueError(f"{options.folder} is not a model of pronunciation")
        validation = hypotheses(options.folder, task, "validation", options.num_beams)
        fitted = fitted_calibration(*most_probable(validation))
        test = hypotheses(options.folder, task, "test", options.num_beams)
        if options.save:
            save(fitted, options.folder)
    temperature, bias = fitted
    words = f"{len(validation):,} words of the validation split"
    print(f"temperature {temperature:.3f} and bias {bias:.3f}, fitted on the {words}")
    for name, value in (("before", NONE), ("after", fitted)):
        said = {word.text: best_of(word, value) for word in test}
        certain = [confidence for _, confidence in said.values()]
        is_right = [said[word.text][0] in word.listed for word in test]
        auroc = roc_auc_score(is_right, certain) if len({*is_right}) == 2 else float("nan")  # all right, or all wrong
        print(
            f"test split, {len(is_right):,} words, {name} the fit: ECE {calibration_error(certain, is_right):.4f}, "
            f"AUROC {auroc:.4f}"
        )
    predictions = [said.get(word, ("", 0.0))[0] for word in task.splits["test"]["word"]]
    print(f"test split, as attnzoo pronounce reads: {describe(task, task.measure('test', predictions))}")


def calibrate(folder: Path, task: GraphemeToPhoneme, num_beams: int | None = None) -> None:
    """Fit the calibration of the model in ``folder`` and save it there."""
    save(fitted_calibration(*most_probable(hypotheses(folder, task, "validation", num_beams))), folder)


def save(calibration: Calibration, folder: Path) -> None:
    """Write a calibration into the ``config.json`` of ``folder``."""
    temperature, bias = (round(value, 3) for value in calibration)
    update_config(folder, confidence_temperature=temperature, confidence_bias=bias)


class Heard(NamedTuple):
    """A word with what the model found.

    Attributes:
        text: the word, after the token of its accent if it has one
        listed: its pronunciations in the dictionary
        found: the hypotheses, the most probable first
        log_probabilities: of these. They have a constant in common, which does not change confidences
        are_english: whether the phones are of English, so that the phones come before the stress
    """

    text: str
    listed: list[str]
    found: list[Phones]
    log_probabilities: list[float]
    are_english: bool


def hypotheses(folder: Path, task: GraphemeToPhoneme, split: str, num_beams: int | None) -> list[Heard]:
    """The readable words of a split with their hypotheses."""
    heard: list[Heard] = []
    rows = zip(task.splits[split]["word"], task.splits[split]["pronunciations"], strict=True)
    by_accent: dict[str, dict[str, list[str]]] = {}
    for word, pronunciations in rows:
        accent, spelling = accent_and_spelling(word)
        by_accent.setdefault(accent, {})[spelling] = pronunciations
    for accent, words in by_accent.items():
        is_english = task.known is not None and task.known.language == "en"
        model = WordModel(folder, accent, limits_phones=is_english, engine=None, device="cpu")
        model.engine.calibration = NONE
        beams = num_beams or model.engine.num_beams
        if beams == 1:
            raise ValueError("a greedy search gives no confidence; set --num-beams=5")
        readable = {word: form for word in words if (form := model.readable(word))}
        found = model.read(set(readable.values()), n_best=beams, num_beams=beams, batch_size=128)
        for word, form in readable.items():
            best = sorted(found[form], key=lambda one: one.confidence or 0.0, reverse=True)
            values = [float(np.log(one.confidence or 1e-300)) for one in best]
            phones = [one.phones for one in best]
            heard.append(Heard(accent + word, words[word], phones, values, model.has_english_phones))
    return heard


def most_probable(words: list[Heard]) -> tuple[list[list[float]], list[bool]]:
    """The log-probabilities of every word's hypotheses, and whether the most probable one is listed."""
    is_right = [bool(word.found) and " ".join(word.found[0]) in word.listed for word in words]
    return [word.log_probabilities for word in words], is_right


def best_of(word: Heard, calibration: Calibration) -> tuple[str, float]:
    """The pronunciation of a word and its confidence, as a pronouncer with this calibration gives them."""
    if not word.found:
        return "", 0.0
    place = phones_first(word.found, word.log_probabilities, calibration[0])[0] if word.are_english else 0
    return " ".join(word.found[place]), confidences(word.log_probabilities, *calibration)[place]


def fitted_calibration(log_probabilities: list[list[float]], is_right: list[bool]) -> Calibration:
    """The temperature and the bias with the least log loss.

    The bias is 0 unless the Bayesian information criterion prefers it: a few hundred words may not show it.
    """

    def loss(place: np.ndarray) -> float:
        certain = best_confidences(log_probabilities, _calibration(place))
        return float(log_loss(is_right, certain, labels=[False, True], normalize=False))

    bounds = (tuple(np.log(TEMPERATURES)), BIASES)
    alone, both = (minimize(loss, np.zeros(count), bounds=bounds[:count], method="Nelder-Mead") for count in (1, 2))
    is_better = alone.fun - both.fun > np.log(len(is_right)) / 2
    return _calibration(both.x if is_better else alone.x)


def _calibration(place: np.ndarray) -> Calibration:
    """Of the logarithm of the temperature and, if it is there, the bias."""
    return float(np.exp(place[0])), float(place[1]) if len(place) > 1 else 0.0


def best_confidences(log_probabilities: list[list[float]], calibration: Calibration) -> list[float]:
    """The confidence of every word's best pronunciation; 0 for a word without any."""
    return [confidences(of_word, *calibration)[0] if of_word else 0.0 for of_word in log_probabilities]


def calibration_error(confidence: list[float], is_right: list[bool], bins: int = BINS) -> float:
    """The expected calibration error with bins of equal size."""
    order = np.argsort(confidence, kind="stable")
    parts: Any = zip(
        *(np.array_split(np.asarray(values, float)[order], bins) for values in (confidence, is_right)), strict=True
    )
    gaps = [(len(of_bin), abs(of_bin.mean() - right.mean())) for of_bin, right in parts if len(of_bin)]
    return sum(count * gap for count, gap in gaps) / len(confidence)


if __name__ == "__main__":
    main()
