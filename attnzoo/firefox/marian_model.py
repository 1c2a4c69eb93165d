"""The tensors and options of a Marian model, as both of its file formats hold them."""

from dataclasses import dataclass, replace

import numpy as np

from ..messages import shown, shown_each
from .int8 import LARGEST, Int8Matrix, is_quantised, quantised, values_of

OPTIONS = "special:model.yml"  # the item with the options
ALPHA = "_QuantMultA"  # ends the name of an alpha
# The alpha of a shared output projection. Marian's product has no name for the transposed embeddings.
SHARED_OUTPUT = "none"
SMALLEST = 1e-36  # multiplier: with a smaller one 127 / m is not finite in float32

Item = np.ndarray | Int8Matrix


@dataclass(frozen=True)
class MarianModel:
    """A model as it is in a file: matrices are (inputs, outputs), vectors (1, n), embeddings (vocabulary, width).

    Attributes:
        items: the tensors by their names in Marian: arrays of float32, or matrices in eight bits
        options: the text of Marian's YAML
        alphas: for each matrix, by name, the number that its inputs are multiplied by before they are rounded to eight
            bits; empty where the file has none. That of "Wemb" is for the output projection, which is tied to it.
    """

    items: dict[str, Item]
    options: str
    alphas: dict[str, float]

    @property
    def has_codes(self) -> bool:
        """Whether its matrices are in eight bits."""
        return any(isinstance(item, Int8Matrix) for item in self.items.values())

    @property
    def is_in_int8(self) -> bool:
        """Whether products can be computed from its codes: matrices are in eight bits, and inputs have alphas."""
        return bool(self.alphas) and self.has_codes

    def floats(self, name: str) -> np.ndarray:
        """A tensor in float32."""
        item = self.items[name]
        return values_of(*item) if isinstance(item, Int8Matrix) else item

    def in_floats(self) -> "MarianModel":
        """The model with all tensors in float32, and without alphas."""
        return replace(self, items={name: self.floats(name) for name in self.items}, alphas={})

    def in_int8(self, alphas: dict[str, float]) -> "MarianModel":
        """The model with its matrices in eight bits; a matrix that is in eight bits already keeps its codes.

        Args:
            alphas: of all matrices; or empty, and the engine cannot compute in eight bits

        Raises:
            ValueError: only some matrices have an alpha, an alpha has no tensor or cannot be used, or a weight cannot
                become eight bits.
        """
        items = {
            name: quantised(item) if is_quantised(name) and isinstance(item, np.ndarray) else item
            for name, item in self.items.items()
        }
        return checked(MarianModel(items, self.options, alphas))


def checked(model: MarianModel) -> MarianModel:
    """Check all values of a model, and return it.

    Raises:
        ValueError: an item is not a matrix of finite numbers, or the alphas do not fit the matrices.
    """
    for name, item in model.items.items():
        check_item(name, item)
    for name, alpha in model.alphas.items():
        if name not in model.items:
            raise ValueError(f"the alpha of {shown(name)} has no matrix of this name")
        if not SMALLEST <= alpha <= 1 / SMALLEST:
            raise ValueError(f"the alpha of {shown(name)} is {alpha}; it must be from {SMALLEST} to {1 / SMALLEST:g}")
    matrices = {name for name, item in model.items.items() if isinstance(item, Int8Matrix)}
    # Nothing is multiplied by the embeddings of a source vocabulary of its own.
    if model.alphas and (missing := matrices - model.alphas.keys() - {"encoder_Wemb"}):
        raise ValueError(f"matrices in eight bits without an alpha: {shown_each(sorted(missing))}")
    return model


def check_item(name: str, item: Item) -> None:
    """Raise a ValueError for a tensor that is not a matrix of finite numbers in float32, or of codes in int8."""
    values = item.codes if isinstance(item, Int8Matrix) else item
    kind = np.dtype(np.int8 if isinstance(item, Int8Matrix) else np.float32)
    if values.dtype != kind:
        raise ValueError(f"{shown(name)} is {values.dtype}; it must be {kind}")
    if values.ndim != 2 or not values.size:
        raise ValueError(f"{shown(name)} has the shape {values.shape}; a tensor has two dimensions of 1 or more")
    if isinstance(item, Int8Matrix):
        if not SMALLEST <= item.multiplier <= 1 / SMALLEST:
            raise ValueError(
                f"the multiplier of {shown(name)} is {item.multiplier}; it must be from {SMALLEST} to {1 / SMALLEST:g}"
            )
        if values.min() < -LARGEST:
            raise ValueError(f"{shown(name)} has the code -128; codes go from -127 to 127")
    elif not (np.isfinite(values.min()) and np.isfinite(values.max())):  # NaN passes through both
        raise ValueError(f"{shown(name)} has a value that is not finite")


def from_file(items: dict[str, Item], options: bytes | None) -> MarianModel:
    """The model of a file's items, among them the alphas.

    Raises:
        ValueError: the options are missing or not text, or an item cannot be used.
    """
    if options is None:
        raise ValueError(f"the item {OPTIONS} is missing; without it the sizes of the model are unknown")
    if not options.endswith(b"\0") or b"\0" in options[:-1]:
        raise ValueError(f"the item {OPTIONS} does not end with its only zero byte")
    try:
        text = options[:-1].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the item {OPTIONS} is not UTF-8: {error}") from error
    model = MarianModel({}, text, {})
    for name, item in items.items():
        if not name.endswith(ALPHA):
            model.items[name] = item
            continue
        check_item(name, item)
        value = values_of(*item) if isinstance(item, Int8Matrix) else item
        if value.size != 1:
            raise ValueError(f"{shown(name)} has the shape {value.shape}; an alpha is one number")
        model.alphas[name.removesuffix(ALPHA)] = value.item()
    if SHARED_OUTPUT in model.alphas:  # the alpha of "Wemb" is the same one, rounded
        model.alphas["Wemb"] = model.alphas.pop(SHARED_OUTPUT)
    return checked(model)
