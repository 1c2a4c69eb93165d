r"""The steps of the papers, computed by this package from named weights, with their usual mistakes.

A step has parts, in the order of its paper. A part computes quantities from earlier ones. Its first form is the
paper's; others are right too, or have a known fault. The blocks of weights (:mod:`attnzoo.checking.paper_blocks`) have
the papers' symbols.

Dimensions: B batch, S source length, E embedding width, H hidden width, V width of the keys, A attention width, R
readout width, M = 2R, K vocabulary, L positions of a location score.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..attention import AdditiveScore, DotScore, GeneralScore, LocationScore, Score, attend
from ..configuration_attentional_rnn import AttentionalRNNConfig
from ..recurrent_cells import find_cell
from ..recurrent_decoder import BahdanauDecoder, LuongDecoder, StepOutput
from .paper_blocks import Grid

Values = Mapping[str, Tensor]
Compute = Callable[[Values, Values], dict[str, Tensor]]  # of blocks and what is known; empty if the sizes do not fit


class Form(NamedTuple):
    """One way to compute a part.

    ``fault`` is the quantity that is wrong, or "" if the form is right. ``text`` says how the form differs from the
    paper's. ``proof`` is a quantity by which the form is recognised.
    """

    grids: list[Grid]
    compute: Compute
    proof: str
    text: str = ""
    fault: str = ""


class Part(NamedTuple):
    """One part of a step. ``forms`` starts with the right ones, the paper's first."""

    quantities: tuple[str, ...]
    forms: list[Form]


# The attention.

SCORE_GRIDS = {
    "additive": [Grid((("v_a",),), ("1",), ("A",)), Grid((("W_a", "U_a"),), ("A",), ("H", "V"))],
    "general": [Grid((("W_a",),), ("H",), ("V",))],
    "location": [Grid((("W_a",),), ("L",), ("H",))],
    "dot": [],
}
PAPERS = {
    "bahdanau2014": "additive",
    "luong2015-global-dot": "dot",
    "luong2015-global-general": "general",
    "luong2015-global-concat": "additive",
    "luong2015-global-location": "location",
}


def _scored(score: Score, weights: dict[str, Tensor], query: Tensor, keys: Tensor) -> Tensor:
    """The scores (B, S) of a query (B, H), by one of this package's modules with these weights."""
    score.load_state_dict(weights, assign=True)
    positions = torch.arange(keys.shape[1]).expand(keys.shape[:2])
    scores: Tensor = score(query.unsqueeze(1), score.project_key(keys, positions))
    return scores[:, 0]


def _additive(blocks: Values, query: Tensor, keys: Tensor) -> Tensor:
    weights = {"query_proj.weight": blocks["W_a"], "key_proj.weight": blocks["U_a"], "score_vector": blocks["v_a"][0]}
    return _scored(AdditiveScore(query.shape[1], keys.shape[2], len(blocks["W_a"])), weights, query, keys)


SCORE_FUNCTIONS: dict[str, Callable[[Values, Tensor, Tensor], Tensor]] = {
    "additive": _additive,
    "general": lambda blocks, query, keys: _scored(
        GeneralScore(query.shape[1], keys.shape[2]), {"key_proj.weight": blocks["W_a"]}, query, keys
    ),
    "location": lambda blocks, query, keys: _scored(
        LocationScore(query.shape[1], len(blocks["W_a"])), {"position_key": blocks["W_a"]}, query, keys
    ),
    "dot": lambda blocks, query, keys: _scored(DotScore(query.shape[1], keys.shape[2]), {}, query, keys),
}


def _wrong_additive(change: Callable[[Tensor, Tensor], Tensor], blocks: Values, query: Tensor, keys: Tensor) -> Tensor:
    return change((query @ blocks["W_a"].T).unsqueeze(1), keys @ blocks["U_a"].T) @ blocks["v_a"][0]


def _attended(
    blocks: Values,
    known: Values,
    score: Callable[[Values, Tensor, Tensor], Tensor],
    query: str = "query",
    normalise: Callable[[Tensor, Tensor], Tensor] | None = None,
    combine: Callable[[Tensor, Values, Values], Tensor] | None = None,
) -> dict[str, Tensor]:
    keys, real = known["keys"], known["real"]
    if score is SCORE_FUNCTIONS["dot"] and known[query].shape[1] != keys.shape[2]:
        return {}
    scores = score(blocks, known[query], keys)
    context, weights = (part[:, 0] for part in attend(scores.unsqueeze(1), keys, real.unsqueeze(1)))
    if normalise is not None:
        weights = normalise(scores, real)
        context = (weights.unsqueeze(1) @ keys)[:, 0]
    if combine is not None:
        context = combine(weights, known, blocks)
    return {"scores": scores, "alignment": weights, "context": context}


def _softmax(scores: Tensor, real: Tensor, dim: int = 1) -> Tensor:
    return scores.masked_fill(~real, torch.finfo(scores.dtype).min).softmax(dim)


WRONG_SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of the additive score
    "no tanh around the sum": torch.add,
    "tanh of each term, and not of their sum": lambda query, key: query.tanh() + key.tanh(),
    "a sigmoid in place of tanh": lambda query, key: (query + key).sigmoid(),
    "relu in place of tanh": lambda query, key: (query + key).relu(),
}
WRONG_ALIGNMENTS: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "the softmax is over the batch": ("alignment", partial(_softmax, dim=0)),
    "the softmax is over the batch, and the mask after it": (
        "alignment",
        lambda scores, real: scores.softmax(0) * real,
    ),
    "the softmax is over an axis of size 1": ("context", lambda scores, real: torch.ones_like(scores) * real),
    "the softmax is over an axis of size 1, and hides no padding": (
        "context",
        lambda scores, real: torch.ones_like(scores),
    ),
    "padding is not hidden": ("context", lambda scores, real: scores.softmax(1)),
    "the mask is applied after the softmax": ("alignment", lambda scores, real: scores.softmax(1) * real),
    "the mask is inverted": ("alignment", lambda scores, real: _softmax(scores, ~real)),
    "a sigmoid in place of the softmax": ("alignment", lambda scores, real: scores.sigmoid() * real),
    "no softmax: the scores are the weights": ("context", lambda scores, real: scores * real),
}
WRONG_CONTEXTS: dict[str, Callable[[Tensor, Values, Values], Tensor]] = {
    "the sum is over the projected keys": lambda weights, known, blocks: _projected(weights, known["keys"], blocks),
    "the keys are summed without their weights": lambda weights, known, blocks: (
        known["keys"] * known["real"].unsqueeze(-1)
    ).sum(1),
    "all keys, padding too, are summed without their weights": lambda weights, known, blocks: known["keys"].sum(1),
    "the keys are averaged without their weights": lambda weights, known, blocks: known["keys"].mean(1),
    "the sum is over the width, and not over the source": lambda weights, known, blocks: (
        weights.unsqueeze(-1) * known["keys"]
    ).sum(2),
    "a view in place of a transpose mixes rows and positions of the keys": lambda weights, known, blocks: (
        weights.unsqueeze(1) @ known["keys"].transpose(0, 1).reshape(known["keys"].shape)
    )[:, 0],
    "a view in place of a transpose mixes rows and positions of the weights": lambda weights, known, blocks: (
        weights.T.reshape(weights.shape).unsqueeze(1) @ known["keys"]
    )[:, 0],
}


def _projected(weights: Tensor, keys: Tensor, blocks: Values) -> Tensor:
    matrix = blocks.get("U_a", blocks.get("W_a"))
    if matrix is None or matrix.shape[1] != keys.shape[2]:
        return torch.full_like(keys[:, 0], math.nan)
    return (weights.unsqueeze(1) @ keys @ matrix.T)[:, 0]


def attention_part(paper: str, other_query: str | None) -> Part:
    """Scores, alignment and context; ``other_query`` is a state that must not attend."""
    name = PAPERS[paper]
    grids, score = SCORE_GRIDS[name], SCORE_FUNCTIONS[name]
    paper_form = Form(grids, partial(_attended, score=score), "context")
    forms = [paper_form]
    wrong: dict[str, tuple[list[Grid], Any]] = {}
    if name == "additive":
        wrong = {text: (grids, partial(_wrong_additive, change)) for text, change in WRONG_SCORES.items()}
    for other in SCORE_GRIDS.keys() - {name}:
        wrong[f"this is the {other} score"] = (SCORE_GRIDS[other], SCORE_FUNCTIONS[other])
    for fault in ("scores", "alignment"):  # the right scores may be computed first

        def scaled(blocks: Values, query: Tensor, keys: Tensor) -> Tensor:
            return score(blocks, query, keys) / query.shape[1] ** 0.5

        text = "the scores are divided by the root of the width"
        forms.append(Form(grids, partial(_attended, score=scaled), "alignment", text, fault))
    for text, (of_score, function) in wrong.items():
        forms.append(Form(of_score, partial(_attended, score=function), "alignment", text, "scores"))
    if other_query is not None:
        text = f"the query is the {other_query.replace('_', ' ')}"
        forms.append(Form(grids, partial(_attended, score=score, query=other_query), "alignment", text, "scores"))
    for text, (proof, normalise) in WRONG_ALIGNMENTS.items():
        compute = partial(_attended, score=score, normalise=normalise)
        forms.append(Form(grids, compute, proof, text, "alignment"))
    for text, combine in WRONG_CONTEXTS.items():
        forms.append(Form(grids, partial(_attended, score=score, combine=combine), "context", text, "context"))
    return Part(("scores", "alignment", "context"), forms)


# The recurrent cell.

GATES = {"cho_gru": ("z", "r", "h"), "gru": ("r", "z", "h"), "lstm": ("i", "f", "g", "o"), "rnn": ("h",)}
LETTERS = {"embedding": "W", "context": "C", "feed": "C", "state": "U"}
SYMBOLS = {"embedding": "E", "context": "V", "feed": "R", "state": "H"}
SUFFIXES = {"h": "", "o": "_out"}
SHUT = 1e4  # sigmoid(1e4) is 1


def _block(source: str, gate: str) -> str:
    return LETTERS[source] + SUFFIXES.get(gate, f"_{gate}")


def _cell_grid(name: str, sources: tuple[str, ...], without: str = "") -> Grid:
    gates = tuple(gate for gate in GATES[name] if gate != without)
    blocks = tuple(tuple(_block(source, gate) for source in sources) for gate in gates)
    return Grid(blocks, ("H",) * len(gates), tuple(SYMBOLS[source] for source in sources), gates)


def _next_state(
    blocks: Values,
    known: Values,
    name: str,
    sources: tuple[str, ...],
    is_flipped: bool = False,
    without: str = "",
) -> dict[str, Tensor]:
    """The state after one step of this package's cell; ``without`` is a gate that stays open."""
    *read, _ = sources
    inputs = torch.cat([known[source] for source in read], dim=-1)
    state, size = known["state"], known["state"].shape[1]
    signs = {gate: -1.0 if is_flipped and gate == "z" else 1.0 for gate in GATES[name]}
    parts: list[list[Tensor]] = [[], []]
    for gate in GATES[name]:
        rows = [state.new_zeros(size, known[source].shape[1]) for source in sources]
        if gate != without:
            rows = [blocks[_block(source, gate)] * signs[gate] for source in sources]
        parts[0].append(torch.cat(rows[:-1], dim=1))
        parts[1].append(rows[-1])
    weights = [torch.cat(part) for part in parts]
    bias = torch.cat([state.new_full((size,), SHUT if gate == without else 0.0) for gate in GATES[name]])
    cell = find_cell(name)(inputs.shape[1], size).eval()
    if name == "cho_gru":
        named = dict(zip(("weight_input", "weight_hidden", "bias"), (*weights, bias), strict=True))
    else:
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        named = dict(zip(names, (*weights, bias, torch.zeros_like(bias)), strict=True))
    cell.load_state_dict(named, assign=True)
    if name == "lstm":
        _, (hidden, memory) = cell(inputs.unsqueeze(1), (state.unsqueeze(0), known["cell"].unsqueeze(0)))
        return {"state": hidden[0], "cell": memory[0]}
    return {"state": cell(inputs.unsqueeze(1), state.unsqueeze(0))[0][:, 0]}


def cell_part(paper: str, sources: tuple[str, ...], has_cell: bool) -> Part:
    """The next state from its sources, such as ("embedding", "context", "state")."""
    own = "cho_gru" if paper.startswith("bahdanau") else "lstm"
    names = ["lstm"] if has_cell else ["cho_gru", "gru", "rnn"]
    told = {
        "cho_gru": "the cell is a GRU",
        "gru": "the cell is torch's GRU, with the reset gate after U" + ", and not before" * (own == "cho_gru"),
        "lstm": "the cell is an LSTM",
        "rnn": "the cell has no gates",
    }
    forms = []
    for name in names:
        text = "" if name == own else told[name]
        grid = _cell_grid(name, sources)
        forms.append(Form([grid], partial(_next_state, name=name, sources=sources), "state", text))
        if name in ("cho_gru", "gru"):
            both = "; ".join([*([text] if text else []), "z and 1 - z are the other way round"])
            compute = partial(_next_state, name=name, sources=sources, is_flipped=True)
            forms.append(Form([grid], compute, "state", both))
    for name in names:
        for left_out in sources[:-1]:
            fewer = tuple(source for source in sources if source != left_out)
            if len(fewer) > 1:
                compute, text = partial(_next_state, name=name, sources=fewer), f"the cell does not read the {left_out}"
                forms.append(Form([_cell_grid(name, fewer)], compute, "state", text, "state"))
        if name in ("cho_gru", "gru"):
            for is_flipped in (False, True):
                compute = partial(_next_state, name=name, sources=sources, is_flipped=is_flipped, without="r")
                text = "the reset gate has no effect"
                forms.append(Form([_cell_grid(name, sources, without="r")], compute, "state", text, "state"))
    return Part(("state", "cell") if has_cell else ("state",), forms)


# The readout and the logits.


@lru_cache
def _decoder(wiring: str, embedding: int, state: int, keys: int, readout: int) -> Any:
    config = AttentionalRNNConfig(
        wiring=wiring,  # type: ignore[arg-type]
        embedding_size=embedding,
        decoder_hidden_size=state,
        encoder_hidden_size=keys,
        bidirectional=False,
        readout_size=readout,
        attention_size=1,
        vocab_size=4,
    )
    return {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}[wiring](config).double().eval()


def _attentional(blocks: Values, known: Values) -> dict[str, Tensor]:
    """Luong's attentional vector."""
    matrix = torch.cat([blocks["W_c1"], blocks["W_c2"]], dim=1)
    decoder = _decoder("luong", 1, known["new_state"].shape[1], known["context"].shape[1], len(matrix))
    decoder.output_proj.weight.data = matrix
    return {"readout": decoder.combine(known["context"], known["new_state"])}


def _maxout(blocks: Values, known: Values, query: str = "state", in_halves: bool = False) -> dict[str, Tensor]:
    """Bahdanau's readout; ``in_halves`` pairs row i with row R + i."""
    matrix = torch.cat([blocks["U_o"], blocks["V_o"], blocks["C_o"]], dim=1)
    if len(matrix) % 2:
        return {}
    if in_halves:
        matrix = torch.stack(matrix.chunk(2), dim=1).flatten(0, 1)
    sizes = (known[name].shape[1] for name in ("embedding", "state", "context"))
    decoder = _decoder("bahdanau", *sizes, len(matrix) // 2)
    decoder.readout_proj.weight.data, decoder.readout_proj.bias.data = matrix, matrix.new_zeros(len(matrix))
    output = StepOutput(known[query], known["context"], known["alignment"])
    return {"readout": decoder.read_out([output], known["embedding"])}


def _plain_readout(
    blocks: Values, known: Values, sources: dict[str, str], activation: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    total = torch.stack([known[source] @ blocks[block].T for block, source in sources.items()]).sum(0)
    return {"readout": activation(total)}


def readout_part(paper: str) -> Part:
    """What the output projection reads."""
    luong = {"W_c1": "context", "W_c2": "new_state"}
    bahdanau = {"U_o": "state", "V_o": "embedding", "C_o": "context"}
    symbols = {"context": "V", "new_state": "H", "state": "H", "embedding": "E"}

    def plain(sources: dict[str, str], activation: Callable[[Tensor], Tensor], text: str) -> Form:
        grid = Grid(((*sources,),), ("R",), tuple(symbols[source] for source in sources.values()))
        compute = partial(_plain_readout, sources=sources, activation=activation)
        return Form([grid], compute, "readout", text, "readout")

    def same(values: Tensor) -> Tensor:
        return values

    if not paper.startswith("bahdanau"):
        grid = Grid((("W_c1", "W_c2"),), ("R",), ("V", "H"))
        forms = [Form([grid], _attentional, "readout")]
        forms += [plain({**luong, "W_c2": "state"}, torch.tanh, "the state in it is the previous one")]
        for text, change in {"relu": torch.relu, "a sigmoid": torch.sigmoid}.items():
            forms.append(plain(luong, change, f"{text} in place of tanh"))
        forms.append(plain(luong, same, "no tanh"))
        forms += [plain({"W_c1": "context"}, torch.tanh, "it does not read the state")]
        forms += [plain({"W_c2": "new_state"}, torch.tanh, "it does not read the context")]
        return Part(("readout",), forms)
    grid = Grid((("U_o", "V_o", "C_o"),), ("M",), ("H", "E", "V"))
    forms = []
    for query, text in (
        ("state", ""),
        ("new_state", "it reads the new state, as in equation 4, and not appendix A.2.2"),
    ):
        forms += [
            Form([grid], partial(_maxout, query=query, in_halves=each), "readout", text) for each in (False, True)
        ]
    for query in ("state", "new_state"):
        sources = {**bahdanau, "U_o": query}
        forms += [plain(sources, torch.tanh, "tanh in place of the maxout")]
        forms += [plain(sources, torch.relu, "relu in place of the maxout")]
        forms += [plain(sources, same, "it is linear, without the maxout")]
        for left_out in bahdanau:
            fewer = {block: source for block, source in sources.items() if block != left_out}
            forms += [plain(fewer, same, f"it is linear, and does not read the {bahdanau[left_out]}")]
        forms += [plain({"U_o": query}, same, "it is linear, and reads the state alone")]
    return Part(("readout",), forms)


def output_part(paper: str) -> Part:
    """The logits, or the logarithms of the probabilities; probabilities in their place are a fault."""
    name = "W_o" if paper.startswith("bahdanau") else "W_s"
    grid = Grid(((name,),), ("K",), ("R",))

    def form(change: Callable[[Tensor], Tensor], text: str, fault: str = "") -> Form:
        def compute(blocks: Values, known: Values) -> dict[str, Tensor]:
            return {"logits": change(known["readout"] @ blocks[name].T)}

        return Form([grid], compute, "logits", text, fault)

    return Part(
        ("logits",),
        [
            form(lambda logits: logits, ""),
            form(lambda logits: functional.log_softmax(logits, dim=-1), "the logits are logarithms of probabilities"),
            form(lambda logits: functional.softmax(logits, dim=-1), "the logits are probabilities", "logits"),
        ],
    )


def parts_of_step(paper: str, has_feed: bool, has_cell: bool) -> list[Part]:
    """The parts of one step of a decoder, in the paper's order."""
    if paper.startswith("bahdanau"):
        attention = attention_part(paper, None)
        cell = cell_part(paper, ("embedding", "context", "state"), has_cell)
        return [attention, cell, readout_part(paper), output_part(paper)]
    sources = ("embedding", "feed", "state") if has_feed else ("embedding", "state")
    cell = cell_part(paper, sources, has_cell)
    return [cell, attention_part(paper, "previous_state"), readout_part(paper), output_part(paper)]
