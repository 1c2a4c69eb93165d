"""Measure other programs on the words of a recipe of pronunciation, with the metrics of our models.

    python -m tests.benchmarks.environments phonetisaurus gruut g2p-en espeak
    python -m tests.benchmarks.pronunciation_peers phonetisaurus g2p_arpabet

- phonetisaurus: n-grams of joint letters and phonemes; it is trained on the recipe's training split. For misaki that
  is gold and silver entries together, without telling them apart; phonetisaurus-gold is trained on the gold ones alone.
- gruut: the conditional random field that comes with gruut's dictionary, for the recipes of gruut's dictionaries. It
  may have been trained on the test words.
- g2p-en: the network of g2p-en, without its dictionary, for American English in ARPABET. It may have been trained on
  the test words.
- espeak: misaki's fallback, which turns the output of espeak-ng into Kokoro's phones. It has rules and a dictionary.

A peer runs in its own environment. It reads a JSON object from its standard input: ``words``, ``accent`` and, in
``train``, pairs of a word and its pronunciations. It writes a JSON list with a pronunciation for every word.
``pronunciation_languages.py`` measures peers on each of many languages.
"""

import argparse
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attnzoo.training.card import describe
from attnzoo.training.recipe import load_recipe, make_task

from attnzoo.commands.parsers import add_overrides
from attnzoo.phone_sets import ACCENT_TOKENS, SILVER_TOKENS, split
from attnzoo.phonemes import accent_and_spelling
from tests.benchmarks.environments import interpreter

SYSTEMS = Path(__file__).parent / "pronunciation_systems"
PEERS = {
    "phonetisaurus": "phonetisaurus",
    "phonetisaurus-gold": "phonetisaurus",
    "gruut": "gruut",
    "g2p-en": "g2p_en",
    "espeak": "espeak",
}
GOLD = {silver: ACCENT_TOKENS[accent] for accent, silver in SILVER_TOKENS.items()}  # the accents of silver tokens


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("recipe", help="a recipe of configs/, or the path of one")
    parser.add_argument("--split", default="test", help="default: %(default)s")
    parser.add_argument("--predictions", type=Path, help="also write words and pronunciations to this file")
    add_overrides(parser)
    options = parser.parse_args()
    task: Any = make_task(load_recipe(options.recipe, options.set))
    words = task.splits[options.split]["word"][:]
    predictions = predict(options.peer, task, words)
    if options.predictions:
        options.predictions.write_text(
            "".join(f"{word}\t{prediction}\n" for word, prediction in zip(words, predictions, strict=True))
        )
    scores = task.measure(options.split, predictions)
    print(f"{options.peer}, {options.split} split, {len(words):,} words: {describe(task, scores)}")
    print(json.dumps(scores))


def predict(peer: str, task: Any, words: list[str]) -> list[str]:
    """The pronunciations of a peer, which is called once for each accent."""
    train = by_accent(task.splits["train"], peer) if PEERS[peer] == "phonetisaurus" else {}
    asked: dict[str, list[str]] = {}
    for word in words:
        accent, spelling = accent_and_spelling(word)
        asked.setdefault(accent, []).append(spelling)
    found: dict[str, str] = {}
    for accent, spellings in asked.items():
        gold = GOLD.get(accent, accent)
        request = {"train": [*train.get(gold, {}).items()], "words": spellings, "accent": gold[1:-1]}
        answers = answers_of(PEERS[peer], request | {"path": task.data.path})
        if peer == "espeak":
            answers = [" ".join(split(answer or "", "kokoro")) for answer in answers]
        found |= {accent + spelling: answer for spelling, answer in zip(spellings, answers, strict=True)}
    return [found[word] for word in words]


def by_accent(rows: Iterable[dict[str, Any]], peer: str) -> dict[str, dict[str, list[str]]]:
    """The words of rows with their pronunciations, by their accent or dictionary."""
    words: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        accent, spelling = accent_and_spelling(row["word"])
        if not (accent in GOLD and peer == "phonetisaurus-gold"):
            listed = words.setdefault(GOLD.get(accent, accent), {}).setdefault(spelling, [])
            listed += [one for one in row["pronunciations"] if one not in listed]
    return words


def answers_of(program: str, request: Mapping[str, Any]) -> list[Any]:
    """What a program of ``pronunciation_systems/`` answers, which runs in its own environment."""
    command = [str(interpreter(program.replace("_", "-"))), str(SYSTEMS / f"{program}.py")]
    done = subprocess.run(command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True)
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


if __name__ == "__main__":
    main()
