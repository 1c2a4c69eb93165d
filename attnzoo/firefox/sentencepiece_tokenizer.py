"""A vocabulary of SentencePiece as a fast tokenizer of Transformers, which needs no SentencePiece."""

import base64
import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from ..messages import shown
from .sentencepiece_file import SPACE, UNKNOWN_SURFACE, Kind, Piece, SentencePieceFile, checked

SCORE_STEP = 2.0**-10  # float32 has room for sums of multiples of it down to -16,384
COMPOSED = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")  # the tables after which a text is in NFC
# Precompiled looks up a letter together with its combining marks, and may lose the marks. A code point between them
# that ends a letter prevents this. This one is in no text, since Unicode has not assigned it.
BREAK = "\ufff8"
LEADING = r"\A +"  # spaces at the start of a text
MARKS = r"(?!\A)(?=[\n\p{M}\x{200C}\x{200D}\x{FF9E}\x{FF9F}])"  # what belongs to the letter before it


def to_tokenizer(file: SentencePieceFile) -> PreTrainedTokenizerFast:
    """The tokenizer that gives the ids and texts of SentencePiece, and the id of the end after every text.

    No text becomes a control piece: "</s>" in a text is four characters. ``decode`` gives an unknown piece as
    SentencePiece does, unless ``skip_special_tokens`` leaves it out.

    Differs from SentencePiece: letters and their combining marks are composed as far as Unicode does (NFC); its table
    leaves some apart, such as ê with an acute. Scores are summed in float64, and SentencePiece rounds every sum to
    float32. So where two ways to take a text apart have scores that are equal but for this rounding, it may choose the
    other one; such ways are the same pieces in another order, "---" as "--" and "-" or as "-" and "--". Sums of scores
    that are multiples of ``SCORE_STEP`` are exact in both, and no text differs.

    Raises:
        ValueError: a piece or the normaliser cannot be treated as SentencePiece does.
    """
    normals = [score for _, score, kind in file.pieces if kind == Kind.NORMAL]
    # The score of other pieces is not used, but must not lower the lowest one: that of unknown letters depends on it.
    scores = {Kind.USER_DEFINED: score_of_user_defined}
    vocabulary = [
        (text, score if kind == Kind.NORMAL else scores[kind](text) if kind in scores else min(normals))
        for text, score, kind in file.pieces
    ]
    texts = [text for text, *_ in file.pieces]
    unknown = next(text for text, _, kind in file.pieces if kind == Kind.UNKNOWN)
    control = [text for text, _, kind in file.pieces if kind == Kind.CONTROL]
    # PreTrainedTokenizerFast copies its tokenizer, so the model, whose trie of all pieces is large, comes last.
    tokenizer = Tokenizer(models.WordLevel({text: i for i, text in enumerate(texts)}, unknown))
    tokenizer.normalizer = normalizer(file)
    if pattern := reserved_pattern(file):
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "merged_with_next")
    tokenizer.decoder = decoder(file, unknown)
    end = {"id": "end", "ids": [texts.index(file.eos)], "tokens": [file.eos]}  # the piece may have any characters
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A end", pair="$A end $B end", special_tokens=[end]
    )
    tokenizer.add_special_tokens(control)
    names = {"bos_token": "<s>", "pad_token": "<pad>"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=file.eos,
        unk_token=unknown,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        **{name: text for name, text in names.items() if text in control},
    )
    fast.backend_tokenizer.model = models.Unigram(vocabulary, texts.index(unknown), byte_fallback=file.byte_fallback)
    return fast


def from_tokenizer(tokenizer: PreTrainedTokenizerFast) -> SentencePieceFile:
    """The vocabulary of a tokenizer that :func:`to_tokenizer` made, perhaps with tokens added behind its pieces.

    Pieces that are not normal have the score 0, since nothing reads it, and the normaliser's table has the name of the
    usual one.

    Raises:
        ValueError: the tokenizer is another one, or was changed.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    model, steps = parts["model"], (parts["normalizer"] or {}).get("normalizers", [])
    if model["type"] != "Unigram":
        raise ValueError(f"the tokenizer is {model['type']}; only Unigram, with pieces of SentencePiece, is supported")
    control = {token["content"] for token in parts["added_tokens"] if token["special"]}
    kinds = {f"<0x{byte:02X}>": Kind.BYTE for byte in range(256)} if model["byte_fallback"] else {}
    kinds |= dict.fromkeys(control, Kind.CONTROL) | {model["vocab"][model["unk_id"]][0]: Kind.UNKNOWN}
    pieces = []
    for text, score in model["vocab"]:
        kind = kinds.get(text, Kind.USER_DEFINED if score == score_of_user_defined(text) else Kind.NORMAL)
        pieces.append(Piece(text, score if kind == Kind.NORMAL else 0.0, kind))
    tables = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    file = checked(
        SentencePieceFile(
            pieces,
            base64.b64decode(tables[0]) if tables else b"",
            COMPOSED[0] if tables else "identity",
            add_dummy_prefix=any(step["type"] == "Prepend" for step in steps),
            remove_extra_whitespaces=any(step.get("pattern") == {"Regex": LEADING} for step in steps),
            byte_fallback=model["byte_fallback"],
            eos=tokenizer.eos_token,
        )
    )
    made = json.loads(to_tokenizer(file).backend_tokenizer.to_str())
    for part in ("normalizer", "pre_tokenizer", "model", "post_processor", "decoder"):
        if made[part] != parts[part]:
            raise ValueError(f"the tokenizer's {part} is not that of a vocabulary of SentencePiece")
    return file


def score_of_user_defined(text: str) -> float:
    """The score of a user-defined piece in SentencePiece, whatever the file says: 0.1 for each byte after the first."""
    return 0.1 * (len(text.encode()) - 1)


def normalizer(file: SentencePieceFile) -> normalizers.Normalizer:
    """What SentencePiece does to a text before it takes it apart.

    Raises:
        ValueError: another table than those of ``COMPOSED``, or one that changes a user-defined piece.
    """
    steps: list[normalizers.Normalizer] = []
    if file.charsmap:
        if file.normalizer not in COMPOSED:
            raise ValueError(
                f"the normaliser is {shown(file.normalizer)}; supported are identity, {', '.join(COMPOSED)}"
            )
        steps += [normalizers.Replace(Regex(MARKS), BREAK), normalizers.Precompiled(file.charsmap)]
        steps += [normalizers.Replace(BREAK, ""), normalizers.NFC()]
    if file.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex(LEADING), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    for text, _, kind in file.pieces:
        if kind == Kind.USER_DEFINED and (SPACE in text or normalizers.Sequence(steps).normalize_str(text) != text):
            raise ValueError(f"the user-defined piece {shown(text)} is changed by normalising, which is not supported")
    if file.add_dummy_prefix:  # where spaces are kept, a text that normalises to nothing gets one, too
        steps.insert(len(steps) if file.remove_extra_whitespaces else 0, normalizers.Prepend(SPACE))
    steps.append(normalizers.Replace(" ", SPACE))
    if file.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(rf"{SPACE}+\z"), ""))
    return normalizers.Sequence(steps)


def decoder(file: SentencePieceFile, unknown: str) -> decoders.Decoder:
    """What SentencePiece does to pieces to make a text of them."""
    steps: list[decoders.Decoder] = [decoders.Replace(SPACE, " "), decoders.Replace(unknown, UNKNOWN_SURFACE)]
    steps += [decoders.ByteFallback(), decoders.Fuse()]
    if file.add_dummy_prefix or file.remove_extra_whitespaces:  # the space of an unknown piece stays
        steps.append(
            decoders.Replace(Regex(rf"\A((?!{UNKNOWN_SURFACE}) ){'+' if file.remove_extra_whitespaces else ''}"), "")
        )
    return decoders.Sequence(steps)


def reserved_pattern(file: SentencePieceFile) -> str:
    """An expression that finds where to cut a text that spells a control, unknown or byte piece.

    SentencePiece does not match these pieces in texts, and the model of ``tokenizers`` would. It does not if the text
    is cut inside, at a place that no other piece crosses.

    Raises:
        ValueError: there is no such place.
    """
    used = [text for text, _, kind in file.pieces if kind in (Kind.NORMAL, Kind.USER_DEFINED)]

    @functools.cache
    def containing(pair: str) -> list[str]:
        return [piece for piece in used if pair in piece]

    heads = defaultdict(list)
    for text, _, kind in file.pieces:
        if kind in (Kind.NORMAL, Kind.USER_DEFINED) or len(text) == 1:
            continue
        for cut in range(len(text) - 1, 0, -1):
            head, tail = text[:cut], text[cut:]
            if not any(crosses(piece, head, tail) for piece in containing(head[-1] + tail[0])):
                heads[tail].append(head)
                break
        else:
            raise ValueError(f"a text could spell {shown(text)}, and pieces overlap in it; this is not supported")
    return "|".join(f"(?<={'|'.join(map(re.escape, before))}){re.escape(tail)}" for tail, before in heads.items())


def crosses(piece: str, head: str, tail: str) -> bool:
    """Whether a piece can lie across the end of ``head`` in a text with ``head`` and ``tail`` next to each other."""
    return any(
        (head.endswith(piece[:i]) or piece[:i].endswith(head))
        and (tail.startswith(piece[i:]) or piece[i:].startswith(tail))
        for i in range(1, len(piece))
    )


def learn_vocabulary(texts: Iterable[str], size: int) -> SentencePieceFile:
    """A vocabulary that is learned from texts, for a model that Firefox is to run.

    It has the form of Firefox's vocabularies: 0 is the end of a text, 1 is unknown, then the bytes, then pieces, and a
    digit is a piece of its own. Scores are multiples of ``SCORE_STEP``, so that every program gives the same ids.
    Texts are not normalised but for their spaces, so give them in NFC.

    Raises:
        ValueError: the size has no room for the bytes and the characters of the texts, or the trainer fails.
    """
    reserved = [Piece("</s>", 0.0, Kind.CONTROL), Piece("<unk>", 0.0, Kind.UNKNOWN)]
    reserved += [Piece(f"<0x{byte:02X}>", 0.0, Kind.BYTE) for byte in range(256)]
    if size <= len(reserved):
        raise ValueError(f"a vocabulary must have more than {len(reserved)} pieces, got {size}")
    learned = Tokenizer(models.Unigram())
    learned.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(SPACE, "always"),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    trainer = trainers.UnigramTrainer(vocab_size=size - len(reserved), show_progress=False)
    try:
        learned.train_from_iterator(texts, trainer)
    except Exception as error:  # tokenizers raises no other class
        raise ValueError(f"no vocabulary of {size} pieces can be learned from the texts: {error}") from error
    pieces = [Piece(text, score, Kind.NORMAL) for text, score in json.loads(learned.to_str())["model"]["vocab"]]
    return checked(with_exact_sums(SentencePieceFile([*reserved, *pieces], byte_fallback=True)))


def with_exact_sums(file: SentencePieceFile) -> SentencePieceFile:
    """The vocabulary with every score rounded to a multiple of ``SCORE_STEP``."""
    pieces = [Piece(text, round(score / SCORE_STEP) * SCORE_STEP, kind) for text, score, kind in file.pieces]
    return replace(file, pieces=pieces)
