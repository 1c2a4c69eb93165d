"""The recurrent decoder for ``search()``, one token after the other. The beams of a source share its keys and values.

Dimensions: B sources, R rows (equally many for each source), T tokens so far, H width of the readout.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ..copying import Copied, source_ids_of
from ..library_internals import forward_hooks
from ..model_inputs import source_mask
from ..packed_rows import PackedRows
from ..recurrent_cache import check_target_mask
from ..recurrent_cells import WITH_CELL_STATE, RecurrentState
from ..recurrent_decoder import BahdanauDecoder, DecoderState, LuongDecoder
from ..recurrent_encoder import as_encoder_outputs
from ..step_products import GateSum, LayerProducts
from .repeated_product import RepeatedProduct


class RecurrentSearchDecoder:
    """The readouts of sequences that grow by one token at a time.

    Args:
        arguments: the arguments with which ``generate()`` would call the model, their rows repeated for the beams
        num_sources: B
        num_beams: is not used

    Raises:
        TypeError: ``encoder_outputs`` of another kind of model.
        ValueError: ``encoder_outputs`` of other sizes, or a mask that the model's ``forward`` refuses.
    """

    reads = frozenset({"encoder_outputs", "attention_mask", "decoder_attention_mask"})

    def __init__(self, model: Any, arguments: dict[str, Any], num_sources: int, num_beams: int) -> None:
        config = model.config
        encoder_outputs = as_encoder_outputs(
            arguments["encoder_outputs"],
            config.encoder_layers,
            config.encoder_output_size,
            config.cell in WITH_CELL_STATE,
        )
        decoder = model.get_decoder()
        self.wiring, self.encoder_outputs = decoder.wiring, encoder_outputs
        self.embed = lambda tokens: decoder.dropout(decoder.embed_tokens(tokens))
        self.prompt_mask = arguments.get("decoder_attention_mask")
        self.source = None
        if self.wiring.attention is not None:
            repeats = len(encoder_outputs.last_hidden_state) // num_sources
            mask = source_mask(arguments.get("attention_mask"), encoder_outputs.last_hidden_state)
            value = encoder_outputs.last_hidden_state
            self.source = self.wiring.attention.prepare(value[::repeats], mask[::repeats])
        self.source_ids = source_ids_of(encoder_outputs) if config.copy else None
        if self.source_ids is not None:
            self.source_ids = self.source_ids[:: len(self.source_ids) // num_sources]
        self.copied: Copied | None = None  # of the step that was read last
        self.state: DecoderState | None = None  # after the last token
        self.decoder: Any = None  # its copy for single steps, with what they share
        self.read_one = self.step if takes_steps(self.wiring) else self.call
        self.number = 0  # of tokens read

    def read(self, sequences: Tensor) -> Tensor:
        """Read the last token of every sequence (R, T), in the first call all tokens; returns the readouts (R, H)."""
        if self.state is None:
            final = RecurrentState(self.encoder_outputs.final_hidden, self.encoder_outputs.final_cell)
            skip = len(final.hidden) // len(sequences)  # above 1 if the first call reads only one row of each source
            mask = None if self.prompt_mask is None else self.prompt_mask[::skip]
            check_target_mask(mask, sequences.unsqueeze(2), 0)
            self.state = self.wiring.initial_state(final.map(lambda part: part[::skip]), self.source)
        for tokens in sequences[:, self.number :].unbind(dim=1):
            inputs = self.embed(tokens.unsqueeze(1))  # (R, 1, E), as the model's forward has them
            readout, gate, weights = self.read_one(inputs)
            self.number += 1
        if self.source_ids is not None:
            self.copied = Copied(gate, weights, self.source_ids)
        return readout

    def step(self, inputs: Tensor) -> Any:
        """Readout (R, H), gate (R, 1) and weights (R, 1, S) of one step of the decoder."""
        assert self.state is not None  # by read
        embeddings = inputs[:, 0]
        if self.decoder is None:
            products = RepeatedProducts()
            self.decoder = products.for_loop(self.wiring)
            self.source = self.wiring.attention.for_loop(self.source, PackedRows(inputs), products)
            self.state = self.state.to(inputs.dtype)
        (known,) = self.decoder.rnn.known(embeddings, embeddings.shape[:1])
        output, self.state = self.decoder.step(known, self.state, self.source, self.number)
        gate = self.decoder.gate([output], embeddings)
        weights = output.attention_weights.unsqueeze(1)
        return self.decoder.read_out([output], embeddings), None if gate is None else gate.unsqueeze(1), weights

    def call(self, inputs: Tensor) -> Any:
        """The same by a call of the decoder."""
        outputs = self.wiring(inputs, self.state, self.source, self.number)
        self.state = outputs.state
        return outputs.readout[:, 0], outputs.gate, outputs.attention_weights

    def reorder(self, rows: Tensor) -> None:
        """Continue from the states of ``rows`` (R,)."""
        assert self.state is not None
        self.state = self.state.map(lambda part: part.index_select(0, rows.to(part.device)))


def takes_steps(decoder: nn.Module) -> bool:
    """Whether a step of the decoder does all that a call does: not for a subclass, hooks or a replaced ``forward``."""
    is_known = type(decoder) in (BahdanauDecoder, LuongDecoder)
    return is_known and "forward" not in vars(decoder) and not forward_hooks(decoder)


class RepeatedProducts(LayerProducts):
    """The products of a loop that gets one token at a time, without gradients, by :class:`RepeatedProduct`."""

    def linear(self, layer: nn.Linear) -> Any:
        if torch.compiler.is_compiling():
            return layer
        product = RepeatedProduct.of(layer)
        return lambda values: product(values.flatten(0, -2)).unflatten(0, values.shape[:-1])

    def sum(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> GateSum:
        return RepeatedSum(bias, weight, width, *others)


class RepeatedSum(GateSum):
    """A :class:`GateSum` whose step is one product; that of the known inputs is a part of it."""

    def __init__(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> None:
        self.width, self.product = width, RepeatedProduct([weight, *others], bias, is_sum=True)

    def known(self, inputs: Tensor, sizes: Any) -> tuple[Tensor]:
        return (inputs[:, : self.width],)

    def __call__(self, known: Tensor, *values: Tensor) -> Tensor:
        return self.product(torch.cat([known, *values], dim=1))
