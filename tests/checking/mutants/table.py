"""The table of all modules: how each is called, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from tests.checking.mutants import loops, matrices, torch_layers


@dataclass(frozen=True)
class Subject:
    """A module and what its teacher would tell: the kind of docs/check.md, and arguments such as ``causal=True``."""

    make: Callable[[], nn.Module]
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    fault: str = ""  # in plain words; empty for a right module
    shows: str = ""  # in which property the fault shows
    names: tuple[str, ...] = ()  # each of these names of docs/check.md is right; none if the page has no name for it


WIDTH, BAHDANAU, VOCABULARY = {"width": 6}, {"width": (6, 8)}, {"vocab_size": 11}
HEADS = {"width": 8, "num_heads": 2}
FOUR_HEADS = {"width": 16, "num_heads": 4}
STEPS = {"vocab_size": 11, "width": 6}

RIGHT = [
    Subject(loops.LoopedSelfAttention, "self_attention", WIDTH),
    Subject(loops.BahdanauAttention, "attention", BAHDANAU),
    Subject(loops.LuongDotAttention, "attention", WIDTH),
    Subject(loops.LuongGeneralWeights, "attention", {**WIDTH, "batch_first": False}),
    Subject(loops.CausalHeadList, "self_attention", HEADS),
    Subject(loops.WindowedAttention, "self_attention", {**WIDTH, "causal": True}),
    Subject(loops.HoldingEncoder, "encoder", VOCABULARY),
    Subject(loops.TwoWayEncoder, "encoder", VOCABULARY),
    Subject(loops.AttentiveStep, "decoder_step", STEPS),
    Subject(loops.InputFeedingTranslator, "encoder_decoder", VOCABULARY),
    Subject(loops.LookingBackModel, "language_model", VOCABULARY),
    Subject(loops.LossOfLengths, "loss"),
    Subject(matrices.EinsumHeads, "attention", HEADS),
    Subject(matrices.BaddbmmAttention, "attention", WIDTH),
    Subject(matrices.SoftmaxInFloat32, "self_attention", HEADS),
    Subject(matrices.GroupedQueryAttention, "self_attention", FOUR_HEADS),
    Subject(matrices.RotaryAttention, "self_attention", {**HEADS, "causal": True}),
    Subject(matrices.AlibiModel, "language_model", VOCABULARY),
    Subject(matrices.WideValues, "attention", WIDTH),
    Subject(matrices.PostNormBlock, "self_attention", HEADS),
    Subject(matrices.AdditiveWithRenormalising, "attention", BAHDANAU),
    Subject(matrices.TinyGpt, "language_model", VOCABULARY),
    Subject(matrices.SmallTransformer, "encoder_decoder", VOCABULARY),
    Subject(matrices.SmoothedLoss, "loss", {"pad": 0}),
    Subject(matrices.TargetMask, "mask", {"pad": 0, "causal": True}),
    Subject(torch_layers.TimeFirstLayer, "self_attention", {**HEADS, "batch_first": True}),
    Subject(torch_layers.FusedHeads, "attention", HEADS),
    Subject(torch_layers.FusedGroups, "language_model", VOCABULARY),
    Subject(torch_layers.PreNormBlock, "self_attention", HEADS),
    Subject(torch_layers.PackedEncoder, "encoder", VOCABULARY),
    Subject(torch_layers.LstmTranslator, "encoder_decoder", VOCABULARY),
    Subject(torch_layers.TorchTransformer, "encoder_decoder", VOCABULARY),
    Subject(torch_layers.SmoothedCrossEntropy, "loss"),
    Subject(torch_layers.TwoWidths, "attention", {"width": (8, 6), "num_heads": 2}),
    Subject(torch_layers.CachedDecoder, "decoder_step", {"vocab_size": 11, "width": 8}),
]

FAULTY = [
    Subject(
        loops.AttentionOverTheBatch,
        "attention",
        WIDTH,
        "softmax over the batch",
        "the weights of a query sum to one; rows of the batch are independent",
        ("softmax_wrong_axis", "batch_mixed"),
    ),
    Subject(
        loops.MaskJoinedByOr,
        "self_attention",
        {**WIDTH, "causal": True},
        "triangle and padding joined by or",
        "no position depends on a later one",
        ("future_leaked",),
    ),
    Subject(
        loops.ZeroedKeys,
        "attention",
        BAHDANAU,
        "keys of padding set to zero, scores not masked",
        "padding has no weight",
        ("padding_attended",),
    ),
    Subject(
        loops.SigmoidWeights,
        "attention",
        WIDTH,
        "sigmoid instead of softmax",
        "the weights of a query sum to one",
        ("weights_not_normalised",),
    ),
    Subject(
        loops.QueryIgnored,
        "attention",
        BAHDANAU,
        "the energy leaves the query out",
        "the weights depend on the query",
        ("query_ignored",),
    ),
    Subject(
        loops.WeightsBeforeTheMask,
        "self_attention",
        WIDTH,
        "returned weights are those before the mask",
        "padding has no weight",
        ("padding_attended",),
    ),
    Subject(
        loops.StateAfterPadding,
        "encoder",
        VOCABULARY,
        "the loop's last state is that after the padding",
        "the final state does not depend on padding",
        ("final_state_from_padding",),
    ),
    Subject(
        loops.BackwardFromPadding,
        "encoder",
        VOCABULARY,
        "the backward direction begins in the padding",
        "outputs of tokens do not depend on padding",
        ("padding_attended", "final_state_from_padding"),
    ),
    Subject(
        loops.CoverageInPlace,
        "decoder_step",
        STEPS,
        "the coverage of the received state is changed",
        "a step leaves its state as it was",
        ("cache_changed_in_place",),
    ),
    Subject(
        loops.BeamsKeepTheirFeed,
        "decoder_step",
        STEPS,
        "reorder forgets the fed context",
        "the whole state follows the beams",
        ("beam_not_reordered",),
    ),
    Subject(
        loops.TeacherOneAhead,
        "encoder_decoder",
        VOCABULARY,
        "teacher forcing feeds the next token",
        "no position depends on a later one",
        ("future_leaked",),
    ),
    Subject(
        loops.DividedByTheLongest,
        "loss",
        {},
        "the divisor counts padding",
        "padding does not change the loss",
        ("loss_counts_padding",),
    ),
    Subject(
        matrices.SoftmaxOverQueries,
        "self_attention",
        HEADS,
        "softmax over the queries",
        "the weights of a query sum to one over the keys",
        ("softmax_wrong_axis",),
    ),
    Subject(
        matrices.ScaledByTheWidth,
        "self_attention",
        FOUR_HEADS,
        "scale of the whole width",
        "the scale is 1 / sqrt(width of a head)",
        ("scale_wrong",),
    ),
    Subject(
        matrices.HeadsJoinedByAView,
        "self_attention",
        HEADS,
        "heads joined without the transpose back",
        "heads and positions stay apart",
        ("heads_mixed",),
    ),
    Subject(
        matrices.MaskOfTheQueries,
        "self_attention",
        WIDTH,
        "mask broadcast over the keys",
        "padding has no weight",
        ("padding_attended",),
    ),
    Subject(
        matrices.TinyPenalty,
        "attention",
        WIDTH,
        "-1e-9 instead of -1e9",
        "padding has no weight",
        ("padding_attended",),
    ),
    Subject(
        matrices.NanFromPadding,
        "language_model",
        VOCABULARY,
        "queries of padding see no key",
        "all logits are finite",
        ("not_finite",),
    ),
    Subject(
        matrices.NormalisedOverTheBatch,
        "self_attention",
        WIDTH,
        "statistics of the whole batch",
        "rows of the batch are independent",
        ("batch_mixed",),
    ),
    Subject(
        matrices.NormalisedOverTime,
        "self_attention",
        WIDTH,
        "statistics of all positions",
        "padding has no influence",
        ("padding_attended",),
    ),
    Subject(
        matrices.MaskedAfterSoftmax,
        "attention",
        BAHDANAU,
        "mask after the softmax",
        "the weights of tokens do not depend on padding",
        ("mask_after_softmax",),
    ),
    Subject(
        matrices.WeightsOfTheQueryAlone,
        "attention",
        WIDTH,
        "weights from the query and the position of the key",
        "the weights depend on the keys",
        ("keys_ignored",),
    ),
    Subject(
        matrices.PositionsOfRows,
        "language_model",
        VOCABULARY,
        "positions indexed by the row of the batch",
        "a row gives the same at another place of the batch",
        ("batch_mixed",),
    ),
    Subject(
        matrices.LastTokenHidden,
        "mask",
        {},
        "the mask ends one position early",
        "every token can be seen",
        ("real_positions_masked",),
    ),
    Subject(
        torch_layers.MaskNotInverted,
        "self_attention",
        {**HEADS, "mask": "attend"},
        "key_padding_mask not inverted",
        "padding has no influence",
        ("padding_attended",),
    ),
    Subject(
        torch_layers.BatchFirstForgotten,
        "self_attention",
        {**HEADS, "batch_first": True},
        "batch_first not set",
        "rows of the batch are independent",
        ("batch_mixed",),
    ),
    Subject(
        torch_layers.ScaledTwice,
        "self_attention",
        HEADS,
        "scale applied twice",
        "the scale is 1 / sqrt(width of a head)",
        ("scale_wrong",),
    ),
    Subject(
        torch_layers.DropoutAlwaysOn,
        "self_attention",
        {**HEADS, "causal": True},
        "dropout_p not tied to training",
        "two calls in eval mode agree",
        ("dropout_in_eval",),
    ),
    Subject(
        torch_layers.HeadsNotTransposed,
        "self_attention",
        HEADS,
        "attention over the heads of a position",
        "a position depends on the others",
        ("heads_mixed",),
    ),
    Subject(
        torch_layers.FloatMaskAdded,
        "attention",
        {**WIDTH, "mask": "attend"},
        "a mask of 1 and 0 added to the scores",
        "padding has no influence",
        ("padding_attended",),
    ),
    Subject(
        torch_layers.MemoryMaskForgotten,
        "encoder_decoder",
        VOCABULARY,
        "cross-attention without the source's mask",
        "padding has no influence",
        ("padding_attended",),
    ),
    Subject(
        torch_layers.StateOfUnpackedGru,
        "encoder",
        VOCABULARY,
        "sequences not packed",
        "the final state does not depend on padding",
        ("final_state_from_padding",),
    ),
    Subject(
        torch_layers.StepAtPositionZero,
        "decoder_step",
        {"vocab_size": 11, "width": 8},
        "each step takes position 0",
        "steps give the logits of teacher forcing",
        ("step_differs",),
    ),
    Subject(
        torch_layers.MasksOfHeadsInTheWrongOrder,
        "self_attention",
        {**HEADS, "causal": True},
        "masks repeated by heads instead of rows",
        "padding has no influence; rows of the batch are independent",
        ("padding_attended", "batch_mixed"),
    ),
    Subject(
        torch_layers.ResidualInPlace,
        "self_attention",
        HEADS,
        "residual added to the input in place",
        "a call leaves its input as it was",
        ("input_changed_in_place",),
    ),
]

SUBJECTS = [*RIGHT, *FAULTY]
