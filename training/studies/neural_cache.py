r"""Evaluate a language model with a neural cache of the text so far, which needs no training.

``python -m attnzoo.training.studies.neural_cache runs/small_transformer_sotu_causal/best``

Paper: Grave, Joulin and Usunier (2017), "Improving Neural Language Models with a Continuous Cache", arXiv:1612.04426,
section 3, equations 2 and 3. The cache keeps, for every place of the text so far, the hidden state and the token that
came next. At every step the tokens that came after similar states get more probability:

.. math::
    p_\text{cache}(w | x_{1 \dots t}) &\propto \sum_{i=t-N}^{t-1} 1\{w = x_{i+1}\} \exp(\theta\, h_t \cdot h_i) \\
    p(w | x_{1 \dots t}) &= (1 - \lambda)\, p_\text{model}(w | x_{1 \dots t})
        + \lambda\, p_\text{cache}(w | x_{1 \dots t})

Symbols: :math:`h_t` is the last hidden state after token :math:`x_t`; :math:`N` is the size of the cache. The cache is
attention to the past: its query is :math:`\theta h_t`, its keys are the earlier :math:`h_i`, and its values are the
tokens that followed. ``flatness`` is :math:`\theta`, the paper's word: with 0 all places have equal weight, and larger
values favour similar states. ``share`` is :math:`\lambda`.

N, :math:`\theta` and :math:`\lambda` are chosen on the validation split. The cache is empty at the beginning of every
text. The model with the cache is still a distribution over sequences of tokens: their probabilities sum to one.

Differs from the paper: the model is a Transformer, not an LSTM; tokens are parts of words; the cache is emptied before
every text, and the first token of a text has the probability of the model alone.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from attnzoo.commands.parsers import add_overrides, command_parser

from ..card import describe
from ..commands.exits import exit_on_user_error
from ..evaluate import load_model
from ..loop.checkpoint import require_model
from ..recipe import checkpoint_recipe, make_task
from ..tasks.log_probability import sliding_windows, text_ids

SIZES = (500, 2000, 8000)
FLATNESSES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
ROWS_AT_A_TIME = 256  # of the scores, computed at once; a text of 10,000 tokens has 10,000 x 10,000


class Read(NamedTuple):
    """The outputs of a model for a text of n tokens, ``<s>`` not counted.

    Attributes:
        states: (n, hidden size), the hidden state from which each token is predicted
        tokens: (n,), the predicted tokens
        log_probabilities: (n,), the natural logarithm of each token's probability under the model
    """

    states: Tensor
    tokens: Tensor
    log_probabilities: Tensor


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.neural_cache", "Evaluate with a neural cache.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder of a causal language model")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        recipe = checkpoint_recipe(options.folder, options.set)
        if recipe.task.name != "causal_language_modeling":
            raise ValueError(f"{options.folder} is not a causal language model; its task is {recipe.task.name}")
        task = make_task(recipe)
        model, tokenizer = load_model(AutoModelForCausalLM, options.folder)
        reads = {
            split: [read(model, tokenizer, text, task.data.block_size) for text in task.splits[split]["text"]]
            for split in ("validation", "test")
        }
    size, flatness, share = best_cache(reads["validation"])
    print(f"chosen on the validation split: {size:,} tokens, flatness {flatness}, share {share}")
    for split, texts in reads.items():
        plain = [math.fsum(text.log_probabilities.tolist()) for text in texts]
        cached = [math.fsum(with_cache(text, size, flatness, share).tolist()) for text in texts]
        for name, log_probabilities in (("without a cache", plain), ("with the cache", cached)):
            print(
                f"{split} split, {len(texts)} texts, {name}: {describe(task, task.measure(split, log_probabilities))}"
            )


@torch.no_grad()
def read(model: Any, tokenizer: Any, text: str, block_size: int) -> Read:
    """Read a text in windows that share half of their tokens, as an evaluation does."""
    ids = torch.tensor(text_ids(tokenizer, text), device=model.device)
    states, log_probabilities = [], []
    model.eval()
    for start, first, end in sliding_windows(len(ids), block_size):
        outputs = model(input_ids=ids[None, start : end - 1], output_hidden_states=True)
        kept = slice(first - start - 1, None)  # the others were predicted in the window before
        states.append(outputs.hidden_states[-1][0, kept].float())
        log_probabilities.append(-cross_entropy(outputs.logits[0, kept].float(), ids[first:end], reduction="none"))
    return Read(torch.cat(states), ids[1:], torch.cat(log_probabilities))


def best_cache(texts: Sequence[Read]) -> tuple[int, float, float]:
    """The size, flatness and share with the highest probability of these texts."""

    def log_probability(choice: tuple[int, float, float]) -> float:
        size, flatness, share = choice
        return sum(float(mixed(text, cached[size, flatness][number], share).sum()) for number, text in enumerate(texts))

    cached = {
        (size, flatness): [cache_log_probabilities(text, size, flatness) for text in texts]
        for size, flatness in itertools.product(SIZES, FLATNESSES)
    }
    return max(itertools.product(SIZES, FLATNESSES, SHARES), key=log_probability)


def with_cache(text: Read, size: int, flatness: float, share: float) -> Tensor:
    """The logarithm of each token's probability under the model and the cache, (n,)."""
    return mixed(text, cache_log_probabilities(text, size, flatness), share)


def mixed(text: Read, cached: Tensor, share: float) -> Tensor:
    r"""Equation 3: :math:`\ln((1 - \lambda) p_\text{model} + \lambda p_\text{cache})`, (n,)."""
    both = torch.logaddexp(text.log_probabilities + math.log1p(-share), cached + math.log(share))
    both[:1] = text.log_probabilities[:1]  # its cache is empty
    return both


def cache_log_probabilities(text: Read, size: int, flatness: float) -> Tensor:
    r"""Equation 2: :math:`\ln p_\text{cache}` of each token; minus infinity where the cache does not have it, (n,)."""
    places = torch.arange(len(text.tokens), device=text.tokens.device)
    found = []
    for rows in places.split(ROWS_AT_A_TIME):
        oldest = max(0, int(rows[0]) - size)
        keys = places[oldest : int(rows[-1]) + 1]
        is_kept = (keys < rows[:, None]) & (keys >= rows[:, None] - size)
        scores = flatness * text.states[rows] @ text.states[keys].T
        scores = scores.masked_fill(~is_kept, -math.inf)
        is_same = text.tokens[rows][:, None] == text.tokens[keys]
        of_token = scores.masked_fill(~is_same, -math.inf).logsumexp(1)
        found.append(of_token - scores.logsumexp(1))
    return torch.cat(found).nan_to_num(nan=-math.inf, neginf=-math.inf)


if __name__ == "__main__":
    main()
