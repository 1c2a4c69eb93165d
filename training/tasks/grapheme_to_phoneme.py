"""Grapheme-to-phoneme: from the letters of a word to its phonemes, in any language; English from the CMU dictionary."""

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from attnzoo.alignment import align
from attnzoo.languages import dictionaries_among, tags_of
from attnzoo.phone_sets import PRIMARY, SECONDARY, are_arpabet, without_stress
from attnzoo.phonemes import CLOSE, OPEN, accent_and_spelling, bracketed, known_phonemes
from attnzoo.pipelines import readable_word
from attnzoo.viewer import plot_alignments

from ..data import cmudict
from ..data.balanced_accents import balanced
from ..data.cmudict import CMUDICT
from ..data.gruut import GRUUT
from ..data.joined_words import joined_words
from ..data.lemma_families import family
from ..data.misaki import MISAKI
from ..data.pronunciations import PronunciationData, entries, read_extra_words, read_pronunciations, without_number
from ..data.sources import Rows, short
from ..data.splits import cut_note, split_of
from ..data.wikipron import WIKIPRON
from .base import Batch, Card, encoded
from .found_words import FoundWords, first_words
from .letter_tokenizer import MAX_TOKENS, accents, letter_phoneme_tokenizer, word_normalizer
from .metrics import PhonemeErrorRate, StressErrorRate, WordErrorRate, with_interval
from .sequence_to_sequence import ALIGNMENT, PICTURES, SNIPPET, SequenceToSequence, generate_texts

STRESS_NOTE = (
    " Stress errors: words with the right phonemes and the wrong stress; PER and WER without stress ignore it. "
    "The 95 % confidence intervals over words in `run.json` are by bootstrap."
)
MANY_ACCENTS = 10  # more of them are languages, and a card has no room for the figures of each
MAX_PHONEMES = 64  # in a generated pronunciation, unless the data has longer ones


class GraphemeToPhoneme(SequenceToSequence):
    """Words and pronunciations, split by a hash of the word so that every pronunciation of a word is in one split.

    Words and phonemes may be in any script. From CMUdict and misaki it takes the words of two or more letters
    or apostrophes, from the CMU dictionary without stress. The split is the SHA-1 of the word, or of the name of its
    lemma family (``task.data.split_by``), modulo 100: below 10 test, below 12 validation, the rest train. Data with a
    validation or test split of its own keeps it; only missing splits are taken out of its training split. Rows of a
    split "extra" are for training, but those of held-out words or families are left out.

    A word may begin with a token in brackets, the accent: "⟦us⟧tomato". All accents of a word are in one split.

    There are figures for all words and, if the held-out words have several accents, or names and other words, for each
    of these groups; of many accents, such as the languages of one model, the means over accents are shown instead. A
    name is a word that the known data never writes in lowercase. If phonemes have stress, there are stress errors, and
    PER and WER without stress. "KEY_low" and "KEY_high" are the bounds of a figure's 95 % confidence interval over
    words.

    A row is a word with all its pronunciations. Only in a streamed training split it is one entry of the data, with one
    pronunciation.

    Raises:
        ValueError: a word is in two splits, an entry has no phonemes, phonemes are not separated by spaces, a bracket
            ⟦ or ⟧ is in an entry, or a held-out word has a letter that no training word has.
    """

    data_class = PronunciationData
    columns = ["word", "pronunciations"]
    rows_called = "words"
    target = "pronunciations"
    metrics = (PhonemeErrorRate, WordErrorRate, StressErrorRate)  # the last one if phonemes have stress
    metric = "per"
    metric_names = {"per": "PER", "wer": "WER"}
    units = {"per": " %", "wer": " %"}
    known_data = (CMUDICT, MISAKI, *GRUUT, WIKIPRON)
    fixed_keys = ("normalization", "lower_case", "split_by")
    longest: tuple[str, int]
    card = Card(
        tags=("grapheme-to-phoneme", "g2p", "pronunciation"),  # the Hub has no such task for encoder-decoders
        pipeline="grapheme-to-phoneme",
        snippet=SNIPPET,
        usage="The tokenizer takes uppercase letters, typographic apostrophes and, where no training word has them, "
        "accents; any other character that was not in the training words raises an error.",
        metric_note="PER: edit distance to the nearest listed pronunciation over its length. WER: words that match "
        "none of their listed pronunciations.",
        limits="Words of the kind it was trained on; no context, {stress}one pronunciation at a time.",
        pictures=PICTURES,
    )

    def __init__(self, data: PronunciationData | str, only: str | None = None) -> None:
        super().__init__(PronunciationData(path=data) if isinstance(data, str) else data, only)
        card, no_stress = self.card, self._drops_stress
        self.metric_names = self._names_of_figures()
        self.units = dict.fromkeys(self.metric_names, " %")
        stress_note = " Stress is not predicted." if no_stress else STRESS_NOTE if self._has_stress else ""
        languages = tags_of(dictionaries_among(accent.strip(OPEN + CLOSE) for accent in self._accents))
        self.card = dataclasses.replace(
            card,
            language=languages or card.language,
            limits=card.limits.format(stress="no stress, " if no_stress else ""),
            metric_note=card.metric_note + stress_note,
        )

    def _names_of_figures(self) -> dict[str, str]:
        """The names of the figures that cards and messages show, by key; of a group only the WER is shown."""
        names = {"per": "PER", "wer": "WER"}
        if self._has_stress:
            names |= {"stress_errors": "stress errors"}
            names |= {f"{key}_without_stress": f"{name} without stress" for key, name in list(names.items())[:2]}
        if len(self._accents) > MANY_ACCENTS:
            return names | {f"{key}_macro": f"{names[key]}, mean of languages" for key in ("per", "wer")}
        readable = {"_common": "common words", "_us": "American words", "_gb": "British words"}
        return names | {f"wer{group}": f"WER of {readable.get(group, group[1:])}" for group in self._shown_groups}

    def read(self, only: str | None) -> dict[str, Rows]:
        """The splits that the data has, a row for every pronunciation."""
        return read_pronunciations(self.data, only)

    def divide(self, given: dict[str, Rows], only: str | None) -> tuple[dict[str, Rows], str]:
        """All splits, a row for every word; see the class."""
        data = self.data
        if only in given:
            given = {only: given[only]}
        self._given, self._moved, self._lower_case = frozenset(given), set[str](), set[str]()
        self._normalizer = word_normalizer(data.normalization or "nfc", data.lower_case)
        found = FoundWords()
        for name in ("test", "validation", "train"):  # last, so that its words are compared with the held-out ones
            for word, pronunciation in self._words(entries(given[name], data.path) if name in given else []):
                split = self._split(word, name)
                found.add(split, word, pronunciation, data.streaming and split == "train")
        held_out = [word for split in ("validation", "test") for word in found.splits[split]]
        self._held_out = {self._unit(word) for word in held_out}
        self._names = {word for words in found.splits.values() for word in words} - self._lower_case
        sizes = Counter(group for word in held_out for group in self._groups(word))
        self._shown_groups = sorted(group for group in sizes if sizes[group] < len(held_out))
        self._accents = {accent for word in held_out if (accent := accent_and_spelling(word)[0])}
        for word, pronunciation in self._words(entries(given["extra"], data.path) if "extra" in given else []):
            if not self.is_held_out(word):
                found.add("train", word, pronunciation, is_streamed=False)
        if only not in given:
            self._move_unseen_letters(found)
        found.check([only] if only is not None and only in given else list(found.splits), data.path)
        self._letters, self._phonemes = sorted(found.letters), sorted(found.phonemes) + sorted(found.accents)
        listed = {p for words in found.splits.values() for ps in words.values() for p in ps}
        sounds = found.phonemes.union(*map(str.split, listed))
        self._has_stress = any({PRIMARY, SECONDARY}.intersection(sound) for sound in sounds) or (
            are_arpabet(sounds) and any(sound.endswith(tuple("012")) for sound in sounds)
        )
        if data.normalization is None and not accents(found.letters):
            self._normalizer = word_normalizer("strip_accents", data.lower_case)  # it changes no word so far
        if data.compounds and only is None:  # data for evaluation stays as it is given
            joined = joined_words(found.splits["train"], data, found.phonemes, self.is_held_out)
            for word, pronunciation in joined.items():
                found.add("train", word, pronunciation, is_streamed=False)
        self.longest = found.longest
        splits: dict[str, Rows] = {
            split: datasets.Dataset.from_dict(
                {"word": sorted(words), "pronunciations": [words[word] for word in sorted(words)]}
            )
            for split, words in found.splits.items()
        }
        if data.streaming and "train" in given:
            splits["train"] = given["train"].map(self._training_rows, batched=True, remove_columns=["pronunciation"])
        unit = "lemma family" if self._is_split_by_family else "word"
        if len(given.keys() - {"extra"}) == 1:
            return splits, f"split by a hash of the {unit}, so that no {unit} is in two splits"
        missing = [split for split in ("validation", "test") if split not in given]
        return splits, "in its own splits" + (f", {cut_note(missing, unit)}" if missing else "")

    def is_held_out(self, word: str) -> bool:
        """Whether a word must not be learned, because it or a word of its family is in the validation or test split.

        This is for words of other sources, such as unlabelled ones. The word may begin with an accent's token.
        """
        return self._unit(word) in self._held_out

    def example(self) -> str:
        """A word that the model can read."""
        if not {*self._letters}.issuperset("attention") or len(self._accents) > MANY_ACCENTS:
            return next(
                self.splits[split]["word"][0] for split in ("test", "validation", "train") if self.splits[split]
            )
        return max((phoneme for phoneme in self._phonemes if phoneme.startswith(OPEN)), default="") + "attention"

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of the training split's letters and phonemes; see ``letter_phoneme_tokenizer``."""
        max_tokens = max(MAX_TOKENS, 2 * self.longest[1])
        return letter_phoneme_tokenizer(self._letters, self._phonemes, self._normalizer, max_tokens)

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """The encoded training split with ``task.data.extra_words``, in the balance of ``task.data.balance``.

        Raises:
            ValueError: an extra word has a letter or a phoneme that no training word has.
        """
        if self.data.streaming:
            return super().training_examples(tokenizer)
        train = self.splits["train"]
        assert isinstance(train, datasets.Dataset)  # only a stream is of another class
        if self.data.extra_words is not None:
            train = datasets.concatenate_datasets([train, self._extra_rows()])
        if self.data.balance < 1:
            train = train.select(balanced([accent_and_spelling(word)[0] for word in train["word"]], self.data.balance))
        return encoded(train, self.encoder(tokenizer), self.columns)

    def _extra_rows(self) -> datasets.Dataset:
        """The words of ``task.data.extra_words`` that the data does not have."""
        listed = {word for split in self.splits.values() for word in split["word"]}
        words: dict[str, list[str]] = {}
        for word, pronunciation in self._words(read_extra_words(self.data)):
            if word in listed or self.is_held_out(word):
                continue
            accent, spelling = accent_and_spelling(word)
            unknown = {*spelling}.difference(self._letters)
            unknown |= {*pronunciation.split(), *filter(None, [accent])}.difference(self._phonemes)
            if unknown:
                raise ValueError(
                    f"{self.data.extra_words}: {short(repr(word))}, {short(repr(pronunciation))} has letters or "
                    f"phonemes that no training word of {self.data.path} has: {' '.join(sorted(unknown))}"
                )
            words.setdefault(word, []).append(pronunciation)
        print(f"{self.data.extra_words}: {len(words):,} more words for training")
        return datasets.Dataset.from_dict({"word": list(words), "pronunciations": list(words.values())})

    def held_out_examples(self, tokenizer: PreTrainedTokenizerBase, split: str) -> datasets.Dataset:
        """The encoded pronunciations of a split. The loss leaves out those with a phoneme that no training word has."""
        known, words, pronunciations = known_phonemes(tokenizer), list[str](), list[list[str]]()
        for row in self.splits[split]:
            if can_be_written := [one for one in row["pronunciations"] if known.issuperset(one.split())]:
                words.append(row["word"])
                pronunciations.append(can_be_written)
        rows = datasets.Dataset.from_dict({"word": words, "pronunciations": pronunciations})
        return encoded(rows, self.encoder(tokenizer), self.columns)

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids`` and ``labels``, a row for every pronunciation of every word."""

        def encode(rows: Batch) -> Batch:
            pairs = [(w, p) for w, ps in zip(rows["word"], rows["pronunciations"], strict=True) for p in ps]
            words, pronunciations = map(list, zip(*pairs, strict=True))
            encoded = tokenizer(words, text_target=list(map(bracketed, pronunciations)), return_attention_mask=False)
            return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

        return encode

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Set the number of phonemes that a new model generates by default; it is saved with the model.

        Raises:
            ValueError: a model that copies, or a tokenizer without a letter or phoneme of the training words.
        """
        if model.config.copy:
            raise ValueError("model.copy=true copies tokens of the source, and no letter is a phoneme; leave it out")
        self._refuse_unknown(tokenizer)
        model.generation_config.update(max_new_tokens=max(MAX_PHONEMES, self.longest[1]))

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[str]:
        """The pronunciations of these words. Phonemes of the references that the model does not know are reported."""
        self._report_unknown_phonemes(tokenizer, [p for listed in rows["pronunciations"] for p in listed])
        words = [_readable(word, tokenizer) for word in rows["word"]]
        return generate_texts(model, tokenizer, words, num_beams, batch_size=256)

    def measure(self, split: str, predictions: list[str]) -> dict[str, Any]:
        """The figures of a whole split; see the class."""
        words, references = self.splits[split]["word"][:], self.splits[split]["pronunciations"][:]
        figures: dict[str, Any] = {}
        groups = list(map(self._groups, words))
        for group in ("", *self._shown_groups):
            rows = [row for row, of_word in enumerate(groups) if not group or group in of_word]
            of_group = [predictions[row] for row in rows], [references[row] for row in rows]
            for metric in self.metrics if self._has_stress else self.metrics[:2]:
                figures |= _figures(metric(), group, *of_group)
        if self._has_stress:
            bare = [_without_stress(one) for one in predictions], [list(map(_without_stress, of)) for of in references]
            for metric in self.metrics[:2]:
                figures |= _figures(metric(), "_without_stress", *bare)
        if len(self._accents) > MANY_ACCENTS:
            measured = sorted({accent_and_spelling(word)[0] for word in words} - {""})  # perhaps not all accents
            for metric in self.metrics[:2]:
                of_accents = [figures[f"{metric.key}_{accent[1:-1]}"] for accent in measured]
                figures[f"{metric.key}_macro"] = math.fsum(of_accents) / len(of_accents)
        return figures | {"examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """The alignment of a word, if the model has attention and generates phonemes."""
        if getattr(model.config, "score", None) != "none":  # a Transformer always has attention
            word = _readable(self.card.example, tokenizer)
            [best] = generate_texts(model, tokenizer, [word], decoding.get("num_beams", 1), batch_size=1)
            if best and known_phonemes(tokenizer).issuperset(best.split()):
                [pair] = align(model, tokenizer, [word], [best])
                plot_alignments([pair.weights], [pair.source_words], [pair.target_words], folder / ALIGNMENT)

    @property
    def _drops_stress(self) -> bool:
        return self.data.stress == "drop" or (self.known is CMUDICT and self.data.stress is None)

    @property
    def _is_split_by_family(self) -> bool:
        return self.data.split_by == "family" or (self.known is MISAKI and self.data.split_by is None)

    def _unit(self, word: str) -> str:
        """The unit that is hashed and stays in one split: the word without its accent, or its family."""
        spelling = accent_and_spelling(word)[1]
        return family(spelling) if self._is_split_by_family else spelling

    def _groups(self, word: str) -> set[str]:
        """The groups of a word, as the ends of their figures' keys."""
        accent = accent_and_spelling(word)[0]
        groups = {f"_{accent[1:-1]}"} if accent else set()
        if self.known is MISAKI:
            groups.add("_names" if word in self._names else "_common")
        return groups

    def _refuse_unknown(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise a ValueError if the tokenizer of ``start_from`` lacks a letter or phoneme of training words."""
        known, normalizer = {*tokenizer.get_vocab()}, tokenizer.backend_tokenizer.normalizer or self._normalizer
        letters = {c for c in self._letters if not {*(c if c.isspace() else normalizer.normalize_str(c))} <= known}
        phonemes = {one for one in self._phonemes if bracketed(one) not in known}
        if not letters and not phonemes:
            return
        rows = () if self.data.streaming else self.splits["train"]
        pairs = ((row["word"], one) for row in rows for one in row["pronunciations"])
        unknown = letters | phonemes
        pair = next((p for p in pairs if unknown & {*p[0], accent_and_spelling(p[0])[0], *p[1].split()}), ())
        kinds = ("letters", letters), ("phonemes", phonemes)
        said = [f"{name} {' '.join(map(repr, sorted(of_kind)))}" for name, of_kind in kinds if of_kind]
        raise ValueError(
            f"{self.data.path}: the model of training.start_from does not know the {short(' and the '.join(said))}"
            f"{', as in ' + short(' '.join(pair)) if pair else ''}; leave such words out, or leave out "
            "training.start_from, which brings the letters and phonemes of its model"
            + self._stress_remedy(phonemes, known_phonemes(tokenizer))
        )

    def _report_unknown_phonemes(self, tokenizer: PreTrainedTokenizerBase, pronunciations: list[str]) -> None:
        """Report phonemes of the references that the model cannot predict: each occurrence counts as an error."""
        known = known_phonemes(tokenizer)
        unknown = sorted({phoneme for listed in pronunciations for phoneme in listed.split()} - known)
        if known and unknown:
            print(
                f"{self.data.path}: the model does not know {len(unknown)} phonemes of the references, and each is an "
                f"error in its figures: {' '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}"
                + self._stress_remedy(unknown, known),
                file=sys.stderr,
            )

    def _stress_remedy(self, unknown: Iterable[str], known: set[str]) -> str:
        """Advice about unknown phonemes that are known without stress, if there are any."""
        has_stress = not self._drops_stress and any(_without_stress(phoneme) in known for phoneme in unknown)
        return "; --set task.data.stress=drop takes stress off them" if has_stress else ""

    def _move_unseen_letters(self, found: FoundWords) -> None:
        """Move held-out words with letters of no training word to the training split, if a hash made the splits.

        In a script with many letters, such as the syllables of Hangul, some letters are in only one word.
        """
        moved = set[str]()
        for split in {"validation", "test"} - self._given:
            words = found.splits[split]
            unseen = [w for w in words if not found.letters.issuperset(accent_and_spelling(w)[1])]
            self._moved.update(map(self._unit, unseen))
            for word in [word for word in words if self._unit(word) in self._moved]:
                moved.add(word)
                for pronunciation in words.pop(word):
                    found.add("train", word, pronunciation, self.data.streaming)
        self._held_out -= self._moved
        if moved:
            print(
                f"{self.data.path}: {len(moved):,} words that the hash put into the validation or test split "
                f"have letters that no training word had, and are used for training instead: {first_words(moved)}",
                file=sys.stderr,
            )

    def _split(self, word: str, given: str) -> str:
        """The split of a word that is in the ``given`` split of the data."""
        by_hash = "train" if self._unit(word) in self._moved else split_of(self._unit(word), validation=2)
        return given if given != "train" or by_hash in self._given else by_hash

    def _words(self, entries: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The words for training and evaluation, normalised, each with a pronunciation."""
        for word, pronunciation in entries:
            accent, spelling = accent_and_spelling(without_number(word))
            for side in (spelling, pronunciation):
                if OPEN in side or CLOSE in side:
                    raise ValueError(
                        f"{self.data.path}: {short(repr(side))} has one of {OPEN} {CLOSE}, which mark phonemes"
                    )
            normalized = self._normalizer.normalize_str(spelling)
            if self.known in (CMUDICT, MISAKI) and not cmudict.WORD.fullmatch(normalized):
                continue
            if not normalized:
                raise ValueError(f"{self.data.path}: {word!r} has no letters")
            sounds = " ".join(pronunciation.split())
            if self.known is MISAKI and spelling[0].islower():
                self._lower_case.add(accent + normalized)
            yield accent + normalized, _without_stress(sounds) if self._drops_stress else sounds

    def _training_rows(self, rows: dict[str, list[str]]) -> dict[str, list[Any]]:
        """The training rows of a stream, in the form of the rows of the other splits."""
        entries = zip(rows["word"], rows["pronunciation"], strict=True)
        chosen = [(word, listed) for word, listed in self._words(entries) if self._split(word, "train") == "train"]
        return {"word": [word for word, _ in chosen], "pronunciations": [[listed] for _, listed in chosen]}


def _readable(word: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """A word as the tokenizer normalises it, without an accent that the model does not know."""
    accent, spelling = accent_and_spelling(word)
    return readable_word(word if accent in tokenizer.get_added_vocab() else spelling, tokenizer)


def _without_stress(pronunciation: str) -> str:
    return " ".join(without_stress(pronunciation.split()))


def _figures(
    metric: PhonemeErrorRate | WordErrorRate | StressErrorRate,
    group: str,
    predictions: list[str],
    references: list[list[str]],
) -> dict[str, float]:
    """A figure of a group of words, and the bounds of its confidence interval; NaN if there are no words."""
    name = metric.key + group
    if not predictions:
        return with_interval(name, math.nan, (math.nan, math.nan))
    figures = metric.compute(predictions=predictions, references=references)
    return {f"{name}{which}": figures[f"{metric.key}{which}"] for which in ("", "_low", "_high")}
