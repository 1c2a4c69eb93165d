"""Draw what "it" looks at.

``python -m attnzoo.training.studies.coreference_picture model_cards/small-transformer-sotu-masked it.png``

The well-known pair of sentences, in which "it" is the animal if it is tired and the street if it is wide. Every head of
every layer has a row, with the weights that "it" gives to the words of the sentence. An illustration and not a finding:
two sentences show what the weights of this model are, not that it knows what "it" means.
"""

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.viewer import plot_alignments

from ..commands import command_parser
from ..evaluate import load_model
from ..loop.checkpoint import require_model
from ..loop.stopping import exit_on_user_error

PAIR = [f"The animal did not cross the street because it was too {word}." for word in ("tired", "wide")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.coreference_picture", __doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a masked language model, such as runs/NAME/best")
    parser.add_argument("picture", type=Path, help="what to write, as PNG, PDF or SVG by its ending")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        draw(*load_model(AutoModelForMaskedLM, options.folder), options.picture)


def draw(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, picture: Path) -> None:
    """Both sentences side by side."""
    words, weights = zip(*(word_attention(model, tokenizer, sentence, "it") for sentence in PAIR), strict=True)
    heads = [f"layer {layer}, head {head}" for layer in range(len(weights[0])) for head in range(len(weights[0][0]))]
    plot_alignments(
        [of_sentence.flatten(0, 1) for of_sentence in weights],
        words,
        [heads] * len(PAIR),
        picture,
        scale="common",
        titles=[f"\u201cit\u201d {sentence[sentence.index('was') : -1]}: an illustration" for sentence in PAIR],
    )


@torch.no_grad()
def word_attention(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentence: str, word: str
) -> tuple[list[str], Tensor]:
    """The words of a sentence, with its punctuation and its end tokens, and the weights that ``word`` gives them.

    If a word has several tokens, the weights that these get are added, and the weights that they give are averaged.
    ``word`` must occur once in the sentence.

    Shape:
        - returns: weights (layers, heads, words)
    """
    encoded = tokenizer(sentence, return_tensors="pt")
    ids, of_token = encoded["input_ids"][0].tolist(), encoded.word_ids(0)
    groups = [[place] for place, number in enumerate(of_token) if number is None]  # an end token counts as a word
    groups += [[p for p, n in enumerate(of_token) if n == number] for number in sorted({*of_token} - {None})]
    groups.sort()
    words = [word.strip() for word in tokenizer.batch_decode([[ids[place] for place in group] for group in groups])]
    attentions = torch.stack(model(**encoded.to(model.device), output_attentions=True).attentions)[:, 0]
    given = attentions[:, :, groups[words.index(word)]].mean(dim=2)  # (layers, heads, tokens)
    return words, torch.stack([given[..., group].sum(dim=-1) for group in groups], dim=-1)


if __name__ == "__main__":
    main()
