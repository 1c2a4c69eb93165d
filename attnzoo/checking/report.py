"""The result of :func:`attnzoo.check`: the names of all faults, a finding, the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Every fault by its stable name: a short description, and two lines on why it matters and what to change.
FAULTS: dict[str, tuple[str, str]] = {
    "padding_attended": (
        "padding is attended to",
        "Padding gets weight, so the output of a sentence depends on its neighbours in the batch.\n"
        "Set the scores of padding to -inf before the softmax, in every row and head, and check that the mask is not "
        "inverted.",
    ),
    "future_leaked": (
        "the future leaks",
        "A position sees later tokens, so the training loss is low although generation is poor.\n"
        "Query t may see keys 0 to t: torch.tril(torch.ones(T, T)). Hide all other scores before the softmax.",
    ),
    "weights_not_normalised": (
        "attention weights do not sum to one",
        "The output then grows with the number of keys or with the scores themselves.\n"
        "Apply a softmax over the keys to the scores of each query, and do not change the weights afterwards.",
    ),
    "softmax_wrong_axis": (
        "the softmax is over the wrong axis",
        "The weights of one query must sum to one over the keys. Here another axis was normalised.\n"
        "For scores (..., queries, keys) use softmax(dim=-1). Test with sizes that all differ.",
    ),
    "scale_missing": (
        "the scale is missing",
        "Dot products of width d_k have a standard deviation of sqrt(d_k), so the softmax saturates.\n"
        "Divide the scores by sqrt(d_k) before the softmax (Vaswani et al., 2017, section 3.2.1).",
    ),
    "scale_wrong": (
        "the scale is wrong",
        "The scores should be multiplied by 1 / sqrt(d_k), where d_k is the width of one head.\n"
        "Common causes: the width of all heads together, multiplication instead of division, d_k without the root.",
    ),
    "step_differs": (
        "decoding step by step differs from teacher forcing",
        "Training and generation then compute different logits for the same prefix.\n"
        "Check the positions of later steps, the contents of the state, and the order of state update and attention.",
    ),
    "mask_after_softmax": (
        "the mask is applied after the softmax",
        "The softmax still counts masked keys in its sum, so the other weights sum to less than one.\n"
        "Set masked scores to -inf before the softmax, or divide by the new sum after it.",
    ),
    "loss_counts_padding": (
        "the loss counts padding",
        "Padding is counted in the sum of the loss, or in the number that divides the sum.\n"
        "Use ignore_index, or sum the losses of the real tokens and divide by their number.",
    ),
    "final_state_from_padding": (
        "the final state depends on padding",
        "The recurrent encoder also read the padding, so the state of a short sentence is not that of its last token.\n"
        "Use pack_padded_sequence, or gather the state at the last real token and start the backward RNN there.",
    ),
    "beam_not_reordered": (
        "the state is not reordered with the beams",
        "After a reorder, row i of every tensor of the state must continue the prefix of row order[i].\n"
        "Apply index_select(batch_axis, order) to all of them: keys, values, hidden and cell states, input feed.",
    ),
    "heads_mixed": (
        "a wrong view mixes the heads",
        "A view without a transpose puts parts of several positions or rows into one head.\n"
        "Split by view(B, T, H, d_k).transpose(1, 2); merge by transpose(1, 2).reshape(B, T, H * d_k).",
    ),
    "heads_unused": (
        "a head does not reach the output",
        "Its weights have no influence, so its parameters learn nothing.\n"
        "Multiply the weights of each head with its own values, and join all heads before the output projection.",
    ),
    "batch_mixed": (
        "rows of the batch influence each other",
        "The output of one row depends on another row: a view, a softmax or a mean goes over the batch axis.\n"
        "Common causes: view() in place of transpose(), a wrong batch_first, squeeze() without an axis.",
    ),
    "dropout_in_eval": (
        "dropout stays on in eval mode",
        "Two passes in eval mode give different results.\n"
        "Use nn.Dropout, or F.dropout(x, p, training=self.training). In eval mode set dropout_p of "
        "scaled_dot_product_attention to 0.",
    ),
    "cache_changed_in_place": (
        "a step changes the state that it received",
        "Beam search and the scoring of several continuations use the earlier state again, and get wrong results.\n"
        "Make new tensors and containers (torch.cat, {**cache}) in place of +=, append() and index assignment.",
    ),
    "input_changed_in_place": (
        "a call changes its input",
        "The caller's tensor has other values afterwards, so a residual connection or a second use is wrong.\n"
        "Write x = x + y in place of x += y, and masked_fill in place of masked_fill_.",
    ),
    "keys_ignored": (
        "the weights do not depend on the keys",
        "The scores are computed without the keys, so the weights cannot align with the source.\n"
        "Compare each query with every key: a dot product, or v tanh(W query + U key).",
    ),
    "query_ignored": (
        "the weights do not depend on the query",
        "Every query then gets the same mean of the values. A softmax also cancels a term that is equal for all keys.\n"
        "Compare each query with every key: a dot product, or v tanh(W query + U key), with the tanh around the sum.",
    ),
    "real_positions_masked": (
        "real positions are masked",
        "A token that should be visible has no influence on the output.\n"
        "Check that the mask is not inverted, that a causal mask leaves the diagonal visible, and that no position is "
        "cut off.",
    ),
    "not_finite": (
        "the output is not finite",
        "The output has NaN or infinity for ordinary inputs.\n"
        "Common causes: a row whose scores are all -inf, a division by zero, a logarithm of zero.",
    ),
    "scores_differ": (
        "the scores differ from the paper's",
        "With the same weights and inputs, the paper's equation gives other scores.\n"
        "Compare the equation: which state is the query, what is multiplied, what is inside the tanh.",
    ),
    "alignment_differs": (
        "the alignment differs from the paper's",
        "The scores are right, but their weights are not the softmax over the source, with padding hidden before it.\n"
        "Check the axis of the softmax, the mask, and which tensor is returned.",
    ),
    "context_differs": (
        "the context differs from the paper's",
        "The weights are right, but the context is not the sum of the encoder's outputs, multiplied by them.\n"
        "Use (weights[:, None] @ keys)[:, 0] for weights (B, S) and keys (B, S, V).",
    ),
    "state_differs": (
        "the state differs from the paper's",
        "With the same weights and inputs, the paper's cell gives another state.\n"
        "Check what the cell reads, its gates, and which state is returned.",
    ),
    "readout_differs": (
        "the readout differs from the paper's",
        "The state and the context are right, but what the output layer reads is not the paper's.\n"
        "Compare the equation: which state it reads, what is joined, and the function around it.",
    ),
    "logits_differ": (
        "the logits differ from the paper's",
        "The readout is right, but the logits are not its product with one matrix.\n"
        "Apply one linear layer to the readout, and nothing after it.",
    ),
}

# Lines in place of those of FAULTS, where the cause is known better.
OTHER_MASK = (
    "The mask of one row is used for another row.\n"
    "For scores of shape (B * heads, T, S) copy it by mask.repeat_interleave(heads, dim=0); mask.repeat(heads, 1, 1) "
    "puts the heads before the rows."
)
OTHER_PLACE = (
    "The same row gives another output elsewhere in the batch, so something is indexed by the batch axis.\n"
    "Common causes: a table of positions that is cut by x.size(0) in place of x.size(1), or a wrong batch_first."
)
OTHER_ORDER = (
    "The results of a batch that is sorted by length stay in the sorted order, so a row gets those of another.\n"
    "Put outputs and states back by x[order.argsort()], or do not sort, and pass enforce_sorted=False to "
    "pack_padded_sequence."
)
CONTEXT_UNUSED = (
    "The weights are computed, but what is returned beside them does not use them, so nothing is attended to.\n"
    "Multiply the values by the weights, and use their sum, the context, in the output."
)
PADDING_READ = (
    "Something reads padding, so the output of a sentence depends on its neighbours in the batch.\n"
    "Leave padding out of sums, means, maxima and convolutions over positions, and of a recurrent network by "
    "pack_padded_sequence."
)

# The property that each fault breaks, as a report lists it under "checked".
PROPERTIES = {
    "padding_attended": "padding",
    "future_leaked": "future",
    "weights_not_normalised": "sum of the weights",
    "softmax_wrong_axis": "softmax axis",
    "scale_missing": "scale",
    "scale_wrong": "scale",
    "step_differs": "step equals teacher forcing",
    "mask_after_softmax": "padding",
    "loss_counts_padding": "padding of the loss",
    "final_state_from_padding": "padding",
    "beam_not_reordered": "beams",
    "heads_mixed": "heads",
    "heads_unused": "heads",
    "batch_mixed": "batch",
    "dropout_in_eval": "dropout in eval mode",
    "cache_changed_in_place": "state left as it was",
    "input_changed_in_place": "inputs not changed",
    "keys_ignored": "keys",
    "query_ignored": "query",
    "real_positions_masked": "real positions",
    "not_finite": "finite output",
    "scores_differ": "scores",
    "alignment_differs": "alignment",
    "context_differs": "context",
    "state_differs": "state",
    "readout_differs": "readout",
    "logits_differ": "logits",
}


@dataclass(frozen=True)
class Finding:
    """One fault.

    ``name`` is stable and one of ``FAULTS``. ``inputs`` are the arguments of the smallest call that showed it. If two
    calls were compared, ``changed_inputs`` are those of the second one. ``advice`` are two lines on the cause, in place
    of those of ``FAULTS``.
    """

    name: str
    where: str
    inputs: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    changed_inputs: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    advice: str = field(default="", repr=False)

    @property
    def what(self) -> str:
        """The fault in a few words."""
        return FAULTS[self.name][0]

    @property
    def broken(self) -> str:
        """The property that it breaks, as the report lists it."""
        return PROPERTIES[self.name]

    @property
    def explanation(self) -> str:
        """Two lines: why it matters, and what to change."""
        return self.advice or FAULTS[self.name][1]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.what}", f"  where: {self.where}"]
        lines += [f"  {line}" for line in self.explanation.splitlines()]
        if self.inputs:
            shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in self.inputs.items())
            lines.append(f"  smallest failing input: {shapes}")
        return "\n".join(lines)


@dataclass
class Report:
    """What was found, what was checked and what was not.

    A report is true if nothing was found and what the arguments assert (``asserted``, such as causal=True) was checked:
    ``assert attnzoo.check(layer, "self_attention")``.
    """

    subject: str
    kind: str
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    not_checked: dict[str, str] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    asserted: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing was found, and all that the arguments assert was checked."""
        return not self.findings and not self.unknown

    @property
    def unknown(self) -> list[str]:
        """The properties that the arguments assert and that could not be judged."""
        return [check for check in self.asserted if check in self.not_checked]

    @property
    def names(self) -> list[str]:
        """The names of the findings."""
        return [finding.name for finding in self.findings]

    def __bool__(self) -> bool:
        return self.passed

    def add(self, finding: Finding | None) -> bool:
        """Note a finding, once for each name. Return whether there was one."""
        if finding is not None and finding.name not in self.names:
            self.findings.append(finding)
        return finding is not None

    def done(self, check: str) -> None:
        """Note that a property was checked."""
        if check not in self.checked:
            self.checked.append(check)
        self.not_checked.pop(check, None)

    def skip(self, check: str, reason: str) -> None:
        """Note that a property was not checked, and why."""
        if check not in self.checked:
            self.not_checked.setdefault(check, reason)

    def expect(self, check: str) -> None:
        """Note that the arguments assert a property."""
        self.asserted.append(check)
        broken = {finding.broken for finding in self.findings}
        if check not in broken:
            self.skip(check, f"code of the kind {self.kind!r} is not checked for it")

    def as_json(self) -> dict[str, Any]:
        """The report as values of JSON; of tensors only the shapes."""
        findings = [
            {
                "name": each.name,
                "property": each.broken,
                "what": each.what,
                "where": each.where,
                "explanation": each.explanation,
                "inputs": {name: list(value.shape) for name, value in each.inputs.items()},
            }
            for each in self.findings
        ]
        kept = ("subject", "kind", "checked", "not_checked", "assumed", "asserted")
        return {"findings": findings, **{name: getattr(self, name) for name in kept}}

    def __str__(self) -> str:
        number = len(self.findings)
        result = f"{number} finding{'s' if number > 1 else ''}" if number else "nothing found"
        result += f", but not judged: {', '.join(self.unknown)}" if self.unknown else ""
        lines = [f"{self.subject} as {self.kind}: {result}"]
        lines += [str(finding) for finding in self.findings]
        if self.assumed:
            lines += ["assumed:", *(f"  {line}" for line in self.assumed)]
        lines += ["checked:", *(f"  {line}" for line in self.checked)]
        if self.not_checked:
            lines += ["not checked:", *(f"  {check}: {reason}" for check, reason in self.not_checked.items())]
        return "\n".join(lines)
