r"""What each hop of a structured self-attentive classifier attends to, and whether the prediction needs it.

``python -m attnzoo.training.studies.hops FOLDER`` measures a trained model on the test split of its recipe:

- cosine: the mean cosine between the rows of A of two different hops of a sentence; 1 if they are alike
- overlap: the mean of the elements of :math:`A A^\top` off its diagonal, which the penalty of Lin et al. (2017,
  section 2.2) makes small. It is also small if the hops are alike but spread over many words
- special tokens: the share of a hop's weight on special tokens
- changed: the share of predictions that change when the row of a hop in M is set to zero

Letters in shapes: B batch, R hops, S tokens, K labels.
"""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from attnzoo.commands.parsers import add_overrides, command_parser

from ..commands.exits import exit_on_user_error
from ..evaluate import load_model, task_for
from ..loop.checkpoint import require_model
from .study import print_table


class Hops(NamedTuple):
    """Figures of the hops, means over a split; the docstring of this file describes them.

    Shape:
        - cosine, overlap: scalars
        - special, changed: (R,)
    """

    cosine: Tensor
    overlap: Tensor
    special: Tensor
    changed: Tensor


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.hops", __doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="a model with its recipe.yaml, for example a folder of model_cards")
    parser.add_argument("--split", choices=("test", "validation"), default="test")
    add_overrides(parser, "change the recipe, for example task.data.path=FOLDER")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        task: Any = task_for(options.folder, options.set, options.split)
        model, tokenizer = load_model(task.auto_class, options.folder)
        report(measure(model, tokenizer, task, options.split), options.split)


def report(hops: Hops, split: str) -> None:
    """Print the figures."""
    print(f"{split} split: cosine of two hops {hops.cosine:.3f}, overlap of two hops {hops.overlap:.3f}\n")
    rows = zip(hops.special.tolist(), hops.changed.tolist(), strict=True)
    table = [[hop, f"{100 * special:.1f}", f"{100 * changed:.1f}"] for hop, (special, changed) in enumerate(rows, 1)]
    print_table(["hop", "weight on special tokens %", "predictions changed without it %"], *table)


@torch.no_grad()
def measure(model: Any, tokenizer: Any, task: Any, split: str = "test") -> Hops:
    """The figures of a classifier of single sentences.

    Raises:
        ValueError: the model reads pairs, so the hops belong to two matrices; or it has only one hop.
    """
    if len(task.columns) == 2:
        raise ValueError("the study is of single sentences, but this model reads pairs")
    figures: list[Hops] = []  # of every sentence
    for batch in task.splits[split].iter(256):
        inputs = tokenizer(batch[task.columns[0]], padding=True, return_tensors="pt").to(model.device)
        encoded = model.eval().model(**inputs, output_attentions=True)
        annotation_matrix, matrix = encoded.attentions[0].squeeze(1), encoded.sentence_matrix  # (B, R, S), (B, R, V)
        is_special = torch.isin(inputs["input_ids"], torch.tensor(tokenizer.all_special_ids, device=model.device))
        is_special &= inputs["input_ids"] != tokenizer.unk_token_id  # which is a word
        predictions = labels(model, matrix)  # (B,)
        changed = [labels(model, without(matrix, hop)) != predictions for hop in range(matrix.shape[1])]
        figures.append(
            Hops(
                mean_of_pairs(normalize(annotation_matrix, dim=-1)),
                mean_of_pairs(annotation_matrix),
                (annotation_matrix * is_special.unsqueeze(1)).sum(-1),
                torch.stack(changed, dim=1).float(),
            )
        )
    return Hops(*(torch.cat(parts).mean(dim=0) for parts in zip(*figures, strict=True)))


def labels(model: Any, sentence_matrix: Tensor) -> Tensor:
    """The labels (B,) that a classifier predicts from sentence matrices (B, R, V)."""
    return model.classifier(model.hidden_proj(sentence_matrix.flatten(1)).relu()).argmax(dim=-1)


def without(sentence_matrix: Tensor, hop: int) -> Tensor:
    """The sentence matrices (B, R, V) with the row of one hop set to zero."""
    return sentence_matrix.index_fill(1, torch.tensor(hop, device=sentence_matrix.device), 0.0)


def mean_of_pairs(annotation_matrix: Tensor) -> Tensor:
    """The mean of the elements of A A^T off its diagonal: 0 if no two hops share a token, 1 if all attend to one token.

    With rows of length 1 these are the cosines.

    Shape:
        - annotation_matrix: (B, R, S)
        - returns: (B,)

    Raises:
        ValueError: there is one hop.
    """
    num_hops = annotation_matrix.shape[1]
    if num_hops < 2:
        raise ValueError("the study compares pairs of hops, but this model has only one hop")
    products = annotation_matrix @ annotation_matrix.mT  # (B, R, R)
    apart = products.sum(dim=(1, 2)) - products.diagonal(dim1=1, dim2=2).sum(dim=1)
    return apart / (num_hops * (num_hops - 1))


if __name__ == "__main__":
    main()
