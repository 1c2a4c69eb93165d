"""How many sentences Mozilla's engine, a model, and the model in the browser's arithmetic translate alike."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .browser_arithmetic import greedy, in_browser_arithmetic
from .engine import by_engine, engine_text
from .marian_files import write_bin
from .parameters import to_marian
from .students import Student, StudentFiles

FLOAT, SATURATING, EXACT = "float32", "int8 in saturating sums", "int8 in exact sums"


def translations(student: Student, sentences: Sequence[str]) -> dict[str, list[str]]:
    """The greedy translations of the sentences, by the name of the arithmetic, and with the spelling of the engine.

    The arithmetics are float32 and, for a model in eight bits with alphas, the browser's with and without saturation.
    """
    models = {FLOAT: student.model}
    if student.marian.is_in_int8:
        for name, saturates in ((SATURATING, True), (EXACT, False)):
            models[name] = in_browser_arithmetic(student.model, student.marian, saturates)
    rows, tokenizer = student.tokenizer([*sentences])["input_ids"], student.tokenizer
    return {
        name: [engine_text(tokenizer.convert_ids_to_tokens(greedy(model, row)), tokenizer.unk_token) for row in rows]
        for name, model in models.items()
    }


def compare_with_engine(
    files: StudentFiles, student: Student, sentences: Sequence[str], python: str | Path = sys.executable
) -> list[tuple[str, str]]:
    """Translate sentences with Mozilla's engine and with the model, and count where they agree.

    The engine translates with the weights in float32, written by :func:`write_bin`, and, if the file is in eight bits
    with alphas, with the file itself. In eight bits, an x86 processor without VNNI adds in 16 bits, where a sum may
    saturate, which changes outputs.

    Args:
        files: the model's files
        student: their contents, loaded
        sentences: in the language of the source
        python: of the environment that has the engine

    Returns:
        the figures: what was compared, and "N of M"

    Raises:
        ValueError: there are no sentences, or no engine, or the engine refuses the files.
    """
    if not sentences:
        raise ValueError("there are no sentences to translate; give at least one")
    own = translations(student, sentences)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bin"
        write_bin(path, to_marian(student.model))
        engine = {FLOAT: by_engine(path, files.vocabulary, sentences, python)}
    if student.marian.is_in_int8:
        engine["int8"] = by_engine(files.model, files.vocabulary, sentences, python)
    backend = engine[FLOAT].backend
    rows = [(f"engine in {FLOAT}, model in {FLOAT}", agreement(engine[FLOAT].texts, own[FLOAT]))]
    if student.marian.is_in_int8:
        for name in (SATURATING, EXACT, FLOAT):
            rows.append((f"engine in int8 ({backend}), model in {name}", agreement(engine["int8"].texts, own[name])))
    return rows


def agreement(texts: Sequence[str], others: Sequence[str]) -> str:
    """How many of the texts are the same but for spaces at their ends."""
    count = sum(text.strip(" ") == other.strip(" ") for text, other in zip(texts, others, strict=True))
    return f"{count} of {len(texts)}"
