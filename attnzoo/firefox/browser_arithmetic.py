r"""The products of a model in eight bits as Firefox computes them, and the alphas that they need.

The alpha of a matrix is the number that its inputs are multiplied by before they are rounded to eight bits.

Dimensions: K inputs, N outputs of a matrix; ... any number of rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from ..cache_names import CACHE
from ..transformer_layers import SSRU
from .engine import longest_output
from .engine_order import LayerNormInOrder, SSRUInOrder, attention_in_order, positions_in_order
from .int8 import LARGEST, Int8Matrix
from .marian_model import MarianModel
from .parameters import TABLE, marian_names, options_of

LARGEST_SUM, SMALLEST_SUM = 2**15 - 1, -(2**15)  # of 16 bits
SPREAD = 1.1  # standard deviations above the mean
IN_ORDER = "firefox_engine"  # the name of the engine's attention among Transformers' backends
AttentionInterface.register(IN_ORDER, attention_in_order)


class Int8Linear(nn.Module):
    r"""A linear layer in the arithmetic of Firefox ("int8shiftAlphaAll").

    .. math::
        A = \min(127, \max(-127, \mathrm{round}(q a))), \qquad
        y_n = \frac{1}{q m} \sum_k A_k C_{kn} + b_n

    Symbols: :math:`a` are the inputs, :math:`q` is the alpha, :math:`C` are the codes of the matrix, :math:`m` is its
    multiplier. The engine adds 127 to :math:`A`, which makes it unsigned, and subtracts
    :math:`\frac{127}{q m} \sum_k C_{kn}` from the bias. With ``saturates`` it adds the products of neighbours,
    :math:`(A_{2i} + 127) C_{2i,n} + (A_{2i+1} + 127) C_{2i+1,n}`, in 16 bits which saturate, as AVX2 does without VNNI.

    Args:
        matrix: the codes and their multiplier
        alpha: of the inputs
        bias: (N,), or None
        saturates: whether sums of two products are cut to 16 bits

    Shape:
        - values: (..., K)
        - returns: (..., N)
    """

    def __init__(self, matrix: Int8Matrix, alpha: float, bias: Tensor | None, saturates: bool) -> None:
        super().__init__()
        codes = torch.tensor(matrix.codes.astype(np.float32))  # (K, N)
        self.codes = codes if saturates else codes.double()  # in which sums of products of codes are exact
        self.alpha, self.saturates = np.float32(alpha), saturates
        self.scale = float(np.float32(1) / (self.alpha * np.float32(matrix.multiplier)))
        shift = LARGEST * self.scale * codes.sum(0)
        self.bias = -shift if bias is None else bias.detach() - shift

    def forward(self, values: Tensor) -> Tensor:
        unsigned = (values * float(self.alpha)).round().clamp(-LARGEST, LARGEST) + LARGEST
        if self.saturates:
            pairs = unsigned.unflatten(-1, (-1, 2)).unsqueeze(-1) * self.codes.unflatten(0, (-1, 2))  # (..., K/2, 2, N)
            sums = pairs.sum(-2).clamp(SMALLEST_SUM, LARGEST_SUM).sum(-2, dtype=torch.float64)
        else:
            sums = unsigned.double() @ self.codes
        return sums.float() * self.scale + self.bias


def in_browser_arithmetic(model: Any, marian: MarianModel, saturates: bool) -> Any:
    """A copy of a model that computes as Mozilla's engine does with the model's Marian file.

    Products are those of the file's codes and alphas, and all else is in the engine's order (``engine_order.py``). So
    the logits should be the engine's to the last bit, on a processor as ``saturates`` says and with the same C library.
    The copy generates greedily, one text at a time.

    Args:
        model: of the file
        marian: the file's contents
        saturates: as an x86 processor without VNNI does

    Raises:
        ValueError: the file has no matrices in eight bits with alphas.
    """
    if not marian.is_in_int8:
        raise ValueError("the file has no matrices in eight bits with alphas, as Firefox's models have")
    copy = deepcopy(model)

    def replace(name: str, layer: nn.Module) -> None:
        parent, _, child = name.rpartition(".")
        setattr(copy.get_submodule(parent), child, layer)

    for layer, (name, _) in marian_names(options_of(model.config)).items():
        matrix = marian.items[name]
        if not isinstance(matrix, Int8Matrix):  # a normalisation
            replace(layer, LayerNormInOrder(copy.get_submodule(layer)))
            continue
        if name == TABLE:  # with the start token, which is never predicted
            matrix = Int8Matrix(np.pad(matrix.codes, ((0, 1), (0, 0))).T, matrix.multiplier)
        replace(layer, Int8Linear(matrix, marian.alphas[name], copy.get_submodule(layer).bias, saturates))
    for layer, module in [*copy.named_modules()]:
        if isinstance(module, SSRU):
            replace(layer, SSRUInOrder(module))
    for stack in (copy.model.encoder, copy.model.decoder):
        stack.position_embedding.sinusoids = positions_in_order
    copy.set_attn_implementation(IN_ORDER)
    return copy.eval()


@torch.no_grad()
def greedy(model: Any, source: Sequence[int]) -> list[int]:
    """The tokens of greedy search for the ids of one source, without the end, at most as many as the engine generates.

    The model's own forward pass computes them, so hooks and replaced layers take effect, and no setting of
    ``generate()`` does.
    """
    config, written = model.config, list[int]()
    encoded, cache = model.get_encoder()(torch.tensor([source])), None
    token = config.decoder_start_token_id
    for _ in range(longest_output(len(source))):
        last = torch.tensor([[token]])
        step = model(encoder_outputs=encoded, decoder_input_ids=last, past_key_values=cache, use_cache=True)
        cache, token = step[CACHE], int(step.logits[0, -1].argmax())
        if token == config.eos_token_id:
            break
        written.append(token)
    return written


def recorded_alphas(model: Any, sources: Sequence[Sequence[int]]) -> dict[str, float]:
    r"""The alphas of a model's matrices by their names in Marian, from the greedy translation of sources.

    .. math:: q = 127 / (\mu + 1.1 \sigma)

    Symbols: :math:`\mu, \sigma` are the mean and the standard deviation, over the calls of a layer, of the largest
    magnitude among its inputs. The alpha of a matrix whose inputs are all 0 is 1.

    Args:
        model: in float32
        sources: the ids of each sentence, some hundred of the kind that is to be translated

    Raises:
        ValueError: there are no sources.
    """
    if not sources:
        raise ValueError("alphas are recorded while sentences are translated; give at least one")
    largest: dict[str, list[float]] = defaultdict(list)
    with watching(model, largest):
        for source in sources:
            greedy(model, source)
    levels = {name: float(np.mean(found) + SPREAD * np.std(found)) for name, found in largest.items()}
    return {name: LARGEST / level if level else 1.0 for name, level in levels.items()}


@contextmanager
def watching(model: Any, largest: dict[str, list[float]]) -> Iterator[None]:
    """Note the largest magnitude among the inputs of each call of a matrix, by its name in Marian."""

    def watch(name: str, layer: nn.Module) -> Any:
        return layer.register_forward_pre_hook(lambda _, inputs: largest[name].append(float(inputs[0].abs().max())))

    layers = {name: model.get_submodule(layer) for layer, (name, _) in marian_names(options_of(model.config)).items()}
    handles = [watch(name, layer) for name, layer in layers.items() if isinstance(layer, nn.Linear)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
