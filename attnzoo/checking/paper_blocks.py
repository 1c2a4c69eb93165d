"""Read a module's parameters as block matrices of a paper's weights.

A paper's equation has one matrix for each input, and a cell one for each gate and input. A module may keep them apart,
side by side, one below the other, or transposed. A grid holds the blocks of one equation: the gates are its rows, the
inputs its columns. A reading is written as the module has it: spaces between blocks side by side, semicolons between
rows, ".T" for a transposed block, such as ``attention.weight = W_a U_a`` and ``cell.W = W_z.T W_r.T W.T``.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from torch import Tensor


class Grid(NamedTuple):
    """The blocks of one equation, by row and column; the symbol of each row's height and each column's width."""

    blocks: tuple[tuple[str, ...], ...]
    heights: tuple[str, ...]
    widths: tuple[str, ...]
    gates: tuple[str, ...] = ()


class Parameter(NamedTuple):
    """A parameter of the module. ``gates`` is their order in a weight of torch's recurrent layers."""

    name: str
    values: Tensor
    gates: tuple[str, ...] = ()


class Reading(NamedTuple):
    """Parameters read as blocks: the values and sizes of blocks, and the notation of each parameter.

    ``styles`` are the order and orientation of the columns: parameters with the same columns have the same ones.
    """

    blocks: dict[str, Tensor]
    sizes: dict[str, int]
    notes: dict[str, str]
    styles: dict[frozenset[str], tuple[bool, tuple[int, ...]]]


def readings(
    grids: Sequence[Grid], parameters: Sequence[Parameter], sizes: Mapping[str, int], told: Mapping[str, str]
) -> Iterator[Reading]:
    """Every way to read parameters as the blocks of these grids, each block once. Not all parameters must be read.

    ``told`` is the notation of some parameters; they are read in no other way.
    """
    yield from _extended(grids, parameters, told, Reading({}, {**sizes, "1": 1}, {}, {}))


def _extended(
    grids: Sequence[Grid], parameters: Sequence[Parameter], told: Mapping[str, str], known: Reading
) -> Iterator[Reading]:
    missing = (
        (grid, row, column)
        for grid in grids
        for row, names in enumerate(grid.blocks)
        for column, name in enumerate(names)
        if name not in known.blocks
    )
    place = next(missing, None)
    if place is None:
        yield known
        return
    grid, row, column = place
    for parameter in sorted(parameters, key=lambda each: _unlike(each.name, grid, row, column)):
        if parameter.name not in known.notes:
            for longer in _read(parameter, *place, told.get(parameter.name), known):
                yield from _extended(grids, parameters, told, longer)


def _unlike(name: str, grid: Grid, row: int, column: int) -> tuple[bool, bool]:
    """Small if the name of a parameter is that of a block, or ends like its gate."""
    plain = name.removesuffix(".weight").rpartition(".")[2].replace("_", "").lower()
    gate = grid.gates[row] if grid.gates else ""
    return plain != grid.blocks[row][column].replace("_", "").lower(), not plain.endswith(gate)


def _read(
    parameter: Parameter, grid: Grid, row: int, column: int, told: str | None, known: Reading
) -> Iterator[Reading]:
    """The readings of one parameter that hold the block at a row and a column."""
    values = parameter.values if parameter.values.ndim > 1 else parameter.values[None]
    shape, is_vector = (values.shape[0], values.shape[1]), parameter.values.ndim < 2
    for is_turned, rows, columns, fitted in _fitting(
        shape, is_vector, parameter.gates, grid, tuple(known.sizes.items())
    ):
        names = [[grid.blocks[r][c] for c in columns] for r in rows]
        if row not in rows or column not in columns or any(name in known.blocks for line in names for name in line):
            continue
        note, style = notation(names, is_turned), (is_turned, columns)
        kind = frozenset(grid.blocks[0][c] for c in columns)
        if (told is not None and _plain(told) != note) or known.styles.get(kind, style) != style:
            continue
        lines = (values.T if is_turned else values).split([fitted[grid.heights[r]] for r in rows])
        parts = [line.split([fitted[grid.widths[c]] for c in columns], dim=1) for line in lines]
        blocks = {name: part for line in zip(names, parts, strict=True) for name, part in zip(*line, strict=True)}
        notes, styles = known.notes | {parameter.name: note}, known.styles | {kind: style}
        yield Reading(known.blocks | blocks, fitted, notes, styles)


@lru_cache(maxsize=4096)
def _fitting(
    shape: tuple[int, int], is_vector: bool, gates: tuple[str, ...], grid: Grid, known: tuple[tuple[str, int], ...]
) -> list[tuple[bool, tuple[int, ...], tuple[int, ...], dict[str, int]]]:
    """The orders of rows and columns of a grid that have this shape, and the sizes they need; True if transposed."""
    if gates and {*gates} != {*grid.gates}:
        return []
    row_orders = [tuple(map(grid.gates.index, gates))] if gates else _orders(len(grid.heights))
    found = []
    for is_turned in (False,) if gates or is_vector else (False, True):
        height, width = shape[::-1] if is_turned else shape
        for rows in row_orders:
            sizes = _fitted(height, [grid.heights[index] for index in rows], dict(known))
            for columns in _orders(len(grid.widths)) if sizes is not None else ():
                fitted = _fitted(width, [grid.widths[index] for index in columns], sizes or {})
                if fitted is not None:
                    found.append((is_turned, rows, columns, fitted))
    return found


def _orders(count: int) -> list[tuple[int, ...]]:
    """The orders of one or more of ``count`` indices."""
    return [order for number in range(1, count + 1) for order in itertools.permutations(range(count), number)]


def _fitted(total: int, symbols: Sequence[str], sizes: dict[str, int]) -> dict[str, int] | None:
    """The sizes with the one that was not known, if the symbols can have this sum; else None."""
    unknown = [symbol for symbol in symbols if symbol not in sizes]
    rest = total - sum(sizes.get(symbol, 0) for symbol in symbols)
    if not unknown:
        return sizes if rest == 0 else None
    return sizes | {unknown[0]: rest} if len(unknown) == 1 and rest > 0 else None


def notation(names: Sequence[Sequence[str]], is_turned: bool) -> str:
    """The notation of blocks, as the module has them."""
    if is_turned:
        names = [[f"{name}.T" for name in line] for line in zip(*names, strict=True)]
    return "; ".join(" ".join(line) for line in names)


def _plain(told: str) -> str:
    """A notation with single spaces; commas count as spaces."""
    return "; ".join(" ".join(line.replace(",", " ").split()) for line in told.split(";"))
