"""Pronunciations in the CMU dictionary's conventions for American words that only misaki's dictionary has.

``python -m attnzoo.training.studies.converted_words runs/g2p_converter/best runs/converted.tsv``

The model (``configs/g2p_converter.yaml``) reads a word and misaki's phones for it. The file is for
``task.data.extra_words`` of a recipe that learns the CMU dictionary. If a word has gold and silver entries, only
the gold entries are used.
"""

from pathlib import Path

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.phonemes import accent_and_spelling, known_phonemes

from ..commands import command_parser
from ..data.cmudict import read_cmudict
from ..data.misaki_to_cmudict import sources
from ..loop.checkpoint import require_model, write_atomically
from ..loop.stopping import exit_on_user_error
from ..tasks.sequence_to_sequence import generate_texts


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser(
        "python -m attnzoo.training.studies.converted_words",
        "Convert misaki's words that the CMU dictionary lacks to its phonemes.",
    )
    parser.add_argument("folder", type=Path, help="a checkpoint folder of configs/g2p_converter.yaml")
    parser.add_argument("output", type=Path, help="the file to write, with the columns word and pronunciation")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(options.folder).eval()
        tokenizer = AutoTokenizer.from_pretrained(options.folder)
        if not any(phoneme.startswith("AA") for phoneme in known_phonemes(tokenizer)):
            raise ValueError(
                f"the model in {options.folder} does not write the CMU dictionary's phonemes; train g2p_converter"
            )
        rows = converted(model, tokenizer, words_to_convert())
        lines = ["word\tpronunciation", *(f"{word}\t{pronunciation}" for word, pronunciation in rows)]
        write_atomically(options.output, "\n".join(lines) + "\n")
        print(f"{len(rows):,} words in {options.output}")


def words_to_convert() -> list[tuple[str, str]]:
    """Words that the CMU dictionary lacks, each with a source for the model; silver only where there is no gold."""
    known = set(read_cmudict(Path("cmudict"))["train"]["word"])
    found: dict[str, dict[str, list[str]]] = {}
    for word, source in sources():
        if word not in known:
            tier = source.partition(word)[0]
            found.setdefault(word, {}).setdefault(tier, []).append(source)
    return [(word, source) for word, tiers in found.items() for source in next(iter(tiers.values()))]


def converted(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Pairs of a word and the model's pronunciation.

    Sources with a symbol that the model lacks are left out, and so are empty and repeated pronunciations.
    """
    symbols = set(tokenizer.get_vocab())
    read = [(word, source) for word, source in pairs if symbols.issuperset(accent_and_spelling(source)[1])]
    pronunciations = generate_texts(model, tokenizer, [source for _, source in read], num_beams=1, batch_size=256)
    words = (word for word, _ in read)
    return list(dict.fromkeys(pair for pair in zip(words, pronunciations, strict=True) if pair[1]))


if __name__ == "__main__":
    main()
