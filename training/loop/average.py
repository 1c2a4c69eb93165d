"""Averages of weights: the moving average of a training, and the mean of several checkpoints.

``python -m attnzoo.training.loop.average runs/x/evaluated/checkpoints/* --output runs/mean`` averages checkpoints, as
Vaswani et al. (2017, section 6.1) do with the last five of a run. ``training.keep_evaluated`` keeps that many.
"""

import copy
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import AutoConfig

import attnzoo
from attnzoo.commands.parsers import command_parser
from attnzoo.json_files import read_mapping
from attnzoo.loading import load_trained

from ..commands.exits import exit_on_user_error
from .checkpoint import replacing


class MovingAverage:
    r"""A model with the exponential moving average of another model's weights. Every process holds all of them.

    .. math:: \bar\theta_n = d_n \bar\theta_{n-1} + (1 - d_n) \theta_n, \qquad d_n = \min(d, (1 + n) / (10 + n))

    and :math:`\bar\theta_0 = \theta_0`, the weights at the first update. If the weights are sharded over processes,
    each process gathers them, so all must call the methods. With a decay :math:`d` of 0 it is a whole copy of sharded
    weights, which are gathered only when :meth:`current` is called.
    """

    def __init__(self, model: nn.Module, decay: float, device: torch.device) -> None:
        self.model = copy.deepcopy(model).to(device)
        self.decay = decay
        self.updates = 0

    def after_step(self, model: nn.Module) -> None:
        """Average the weights after a step of the optimiser."""
        if self.decay:
            self._mix(model, min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.updates else 0.0)
            self.updates += 1

    def current(self, model: nn.Module) -> nn.Module:
        """The model with the average."""
        if not self.decay:
            self._mix(model, 0.0)
        return self.model

    @torch.no_grad()
    def _mix(self, model: nn.Module, decay: float) -> None:
        weights = [w.full_tensor() if isinstance(w, DTensor) else w for w in model.parameters()]
        torch._foreach_lerp_(list(self.model.parameters()), weights, 1 - decay)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.loop.average", "Average the weights of checkpoints.")
    parser.add_argument("folders", type=Path, nargs="+", help="checkpoint folders of one model")
    parser.add_argument("--output", type=Path, required=True, help="folder for the averaged checkpoint; must be new")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        average(options.folders, options.output)
    print(f"the average of {len(options.folders)} checkpoints: {options.output}")


@torch.no_grad()
def average(folders: list[Path], output: Path) -> None:
    """Write a checkpoint with the mean of the weights of ``folders``. Everything else is copied from the last folder.

    Card, pictures, record and figures are not copied: they describe the last folder's weights.

    Raises:
        ValueError: ``output`` exists; the last checkpoint's model is not one of attnzoo's; or the checkpoints have
            different models, tokenizers or labels, or lack weights.
        OSError: a checkpoint cannot be read, or ``output`` cannot be written.
    """
    if output.exists():
        raise ValueError(f"{output} exists; choose another --output")
    architectures = AutoConfig.from_pretrained(folders[-1], trust_remote_code=False).architectures or [""]
    model_class = getattr(attnzoo, architectures[0], None)
    if model_class is None:
        raise ValueError(f"{folders[-1]} has a model of class {architectures[0]!r}, which is not one of attnzoo's")
    mean = load_trained(model_class, folders[-1]).double()
    sums = dict(mean.named_parameters())
    for folder in folders[:-1]:
        model = load_trained(model_class, folder).double()
        weights = dict(model.named_parameters())
        if {name: w.shape for name, w in weights.items()} != {name: w.shape for name, w in sums.items()}:
            raise ValueError(f"{folder} and {folders[-1]} are checkpoints of different models")
        if _tokenizer(folder) != _tokenizer(folders[-1]):
            raise ValueError(f"{folder} and {folders[-1]} have different tokenizers: their rows stand for other words")
        if model.config.id2label != mean.config.id2label:
            raise ValueError(
                f"{folder} and {folders[-1]} have different labels: {model.config.id2label} and {mean.config.id2label}"
            )
        for name, weight in weights.items():
            sums[name] += weight
    for weight in sums.values():
        weight /= len(folders)
    with replacing(output) as new:
        of_last_alone = shutil.ignore_patterns("README.md", "*.png", "record.json", "run.json", ".eval_results")
        shutil.copytree(folders[-1], new, ignore=of_last_alone, dirs_exist_ok=True)
        mean.float().save_pretrained(new)


def _tokenizer(folder: Path) -> dict[str, Any]:
    """The tokenizer's vocabulary and rules, if there is a tokenizer, without the padding of its last call."""
    path = folder / "tokenizer.json"
    whole = read_mapping(path) if path.is_file() else {}
    return {name: value for name, value in whole.items() if name not in ("padding", "truncation")}


if __name__ == "__main__":
    main()
