"""Tasks that any model can be trained on in minutes, and the small trainer of the studies that use them.

Every task is a source, the decoder's inputs, and a label for each of these inputs. Copy, reverse, sorting and Dyck-2
ask for a sequence: the inputs are the labels, one step later. Multi-query associative recall (Arora et al., 2023,
"Zoology", arXiv:2312.04927, section 3) asks for values: the source is pairs of a key and its value, the inputs are
keys, and the label of a key is its value.

Letters in shapes: B batch, S source length, T labels, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

PAD, START, FIRST = 0, 1, 3  # token 2 is the end token of the models' configs, which no task here needs
SYMBOLS = 16  # of copy, reverse and sorting; recall has as many keys and values as it needs
IGNORED = -100


class Batch(NamedTuple):
    """A batch of a task.

    Shape:
        - source: (B, S); inputs, labels: (B, T), with -100 where nothing is asked
    """

    source: Tensor
    inputs: Tensor
    labels: Tensor


Task = Callable[[int, int, torch.Generator], Batch]  # of rows, the length of the source, and a source of randomness


def asked_in_order(source: Tensor, target: Tensor) -> Batch:
    """The batch that asks for ``target``, token by token."""
    start = torch.full_like(target[:, :1], START)
    inputs = torch.cat([start, target[:, :-1]], dim=1)
    return Batch(source, inputs, target.masked_fill(target == PAD, IGNORED))


def copy(rows: int, length: int, generator: torch.Generator) -> Batch:
    """The source again."""
    source = torch.randint(FIRST, FIRST + SYMBOLS, (rows, length), generator=generator)
    return asked_in_order(source, source)


def reverse(rows: int, length: int, generator: torch.Generator) -> Batch:
    """The source from its end."""
    source = copy(rows, length, generator).source
    return asked_in_order(source, source.flip(1))


def sort(rows: int, length: int, generator: torch.Generator) -> Batch:
    """The source in ascending order."""
    source = copy(rows, length, generator).source
    return asked_in_order(source, source.sort(dim=1).values)


def dyck(rows: int, length: int, generator: torch.Generator) -> Batch:
    """Dyck-2: the source begins a word of two kinds of brackets, and the target closes those that are open.

    Tokens 3 and 4 open, and 5 and 6 close. A bracket closes with probability 0.4 where one is open.
    """
    source = torch.zeros(rows, length, dtype=torch.long)
    target = torch.zeros(rows, length, dtype=torch.long)
    chances = torch.rand(rows, length, generator=generator).tolist()
    kinds = torch.randint(2, (rows, length), generator=generator).tolist()
    for row in range(rows):
        stack: list[int] = []
        for place in range(length):
            if stack and chances[row][place] < 0.4:
                source[row, place] = FIRST + 2 + stack.pop()
            else:
                stack.append(kinds[row][place])
                source[row, place] = FIRST + stack[-1]
        closing = [FIRST + 2 + kind for kind in reversed(stack)] or [START]  # nothing is open
        target[row, : len(closing)] = torch.tensor(closing)
    return asked_in_order(source, target)


def recall(rows: int, length: int, generator: torch.Generator) -> Batch:
    """Multi-query associative recall with ``length / 2`` pairs, and a question for every key in another order.

    Keys have the tokens from 3 on, ``length`` of them, and values as many after these.
    """
    pairs = length // 2
    keys = torch.rand(rows, length, generator=generator).argsort(dim=1)[:, :pairs] + FIRST
    values = torch.randint(FIRST + length, FIRST + 2 * length, (rows, pairs), generator=generator)
    order = torch.rand(rows, pairs, generator=generator).argsort(dim=1)
    source = torch.stack([keys, values], dim=2).flatten(1)
    return Batch(source, keys.gather(1, order), values.gather(1, order))


TASKS: dict[str, Task] = {"copy": copy, "reverse": reverse, "sort": sort, "dyck-2": dyck, "mqar": recall}


def vocabulary(task: str, length: int) -> int:
    """The number of tokens of a task at this length of the source, the special ones included."""
    return FIRST + {"dyck-2": 4, "mqar": 2 * length}.get(task, SYMBOLS)


def batches(task: Task, rows: int, lengths: tuple[int, int], seed: int) -> Iterator[Batch]:
    """Batches without end; all sources of a batch have one length, drawn between the two of ``lengths``."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(lengths[0], lengths[1] + 1, (1,), generator=generator))
        yield task(rows, length, generator)


def logits_of(model: Any, batch: Batch) -> Tensor:
    """The logits (B, T, V) of any model: the adapter of the studies.

    An encoder-decoder of Transformers reads the source and the decoder's inputs. Every other model, of Transformers or
    any ``nn.Module`` that maps tokens (B, N) to logits (B, N, V), reads one stream: the source and then the inputs. A
    model that needs something else has a method ``answer(batch)``.
    """
    if hasattr(model, "answer"):
        return model.answer(batch)
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return model(input_ids=batch.source, decoder_input_ids=batch.inputs, use_cache=False).logits
    outputs = model(torch.cat([batch.source, batch.inputs], dim=1))
    logits = outputs if isinstance(outputs, Tensor) else outputs.logits
    return logits[:, -batch.inputs.shape[1] :]


def loss_of(model: Any, batch: Batch) -> Tensor:
    """The mean cross-entropy of the labels."""
    return cross_entropy(logits_of(model, batch).flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED)


def fit(
    model: nn.Module,
    stream: Iterator[Any],
    steps: int,
    learning_rate: float,
    loss: Callable[[Any, Any], Tensor] = loss_of,
) -> list[float]:
    """Train with AdamW; the rate rises for a tenth of the steps and then falls to 0 as a cosine. The losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)

    def rate(step: int) -> float:
        warm_up = max(1, steps // 10)
        return min((step + 1) / warm_up, 0.5 * (1 + math.cos(math.pi * step / steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses = []
    model.train()
    for _ in range(steps):
        value = loss(model, next(stream))
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(value.detach()))
    model.eval()
    return losses


@torch.no_grad()
def accuracy(model: Any, batch: Batch) -> float:
    """The share of labels that are predicted; the decoder reads the true labels before them."""
    is_asked = batch.labels != IGNORED
    return float((logits_of(model, batch).argmax(dim=-1) == batch.labels)[is_asked].float().mean())
