"""The recurrent decoder for ``search()``, one token after the other. The beams of a source share its keys and values.

Dimensions: B sources, R rows (equally many for each source), T tokens so far, H width of the readout.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..copying import Copied, source_ids_of
from ..model_inputs import source_mask
from ..recurrent_cache import change_rows, check_target_mask
from ..recurrent_cells import RecurrentState
from ..recurrent_decoder import DecoderLoop, DecoderState, open_loop
from ..recurrent_encoder import as_encoder_outputs
from ..shared_products import LoopRows
from .repeated_product import RepeatedProduct


class RecurrentSteps:
    """The readouts of sequences that grow by a token at a time.

    Args:
        arguments: the arguments with which ``generate()`` would call the model, their rows repeated for the beams
        num_sources: B
        num_beams: unused

    Raises:
        TypeError: ``encoder_outputs`` of another kind of model.
        ValueError: ``encoder_outputs`` of other sizes, or a mask that the model's ``forward`` refuses.
    """

    reads = frozenset({"encoder_outputs", "attention_mask", "decoder_attention_mask"})

    def __init__(self, model: Any, arguments: dict[str, Any], num_sources: int, num_beams: int) -> None:
        config = model.config
        encoder_outputs = as_encoder_outputs(
            arguments["encoder_outputs"], config.encoder_layers, config.encoder_output_size, config.cell == "lstm"
        )
        decoder = model.get_decoder()
        self.wiring, self.encoder_outputs = decoder.wiring, encoder_outputs
        self.embed = lambda tokens: decoder.dropout(decoder.embed_tokens(tokens))
        self.prompt_mask = arguments.get("decoder_attention_mask")
        self.source = None
        if self.wiring.attention is not None:
            repeats = len(encoder_outputs.last_hidden_state) // num_sources
            mask = source_mask(arguments.get("attention_mask"), encoder_outputs.last_hidden_state)
            self.source = self.wiring.attention.read(encoder_outputs.last_hidden_state[::repeats], mask[::repeats])
        self.source_ids = source_ids_of(encoder_outputs) if config.copy else None
        if self.source_ids is not None:
            self.source_ids = self.source_ids[:: len(self.source_ids) // num_sources]
        self.copied: Copied | None = None  # of the step that was read last
        self.state: DecoderState | None = None  # after the last token; with a loop, before the first
        self.loop: DecoderLoop | None = None
        self.number = 0  # of tokens read

    def read(self, sequences: Tensor) -> Tensor:
        """Read the last token of every sequence (R, T), in the first call all tokens; returns the readouts (R, H)."""
        if self.state is None:
            final = RecurrentState(self.encoder_outputs.final_hidden, self.encoder_outputs.final_cell)
            skip = len(final.hidden) // len(sequences)  # above 1 if the first call reads only one row of each source
            mask = None if self.prompt_mask is None else self.prompt_mask[::skip]
            check_target_mask(mask, sequences.unsqueeze(2), 0)
            self.state = self.wiring.initial_state(final.map(lambda part: part[::skip]), self.source)
        outputs: Any = None
        for tokens in sequences[:, self.number :].unbind(dim=1):
            inputs = self.embed(tokens.unsqueeze(1))  # (R, 1, E), as the model's forward has them
            if self.number == 0:
                nothing = inputs.new_empty(1, 1, 0)
                self.loop = open_loop(self.wiring, OpenRows(nothing), nothing, self.state, self.source)
            if self.loop is not None:
                outputs = self.loop.read(inputs[:, 0])
            else:
                outputs = self.wiring(inputs, self.state, self.source, self.number)
                self.state = outputs.state
            self.number += 1
        if self.source_ids is not None:
            self.copied = Copied(outputs.gate, outputs.attention_weights, self.source_ids)
        return outputs.readout[:, 0]

    def reorder(self, rows: Tensor) -> None:
        """Continue from the states of ``rows`` (R,)."""
        assert self.state is not None

        def select(part: Tensor) -> Tensor:
            return part.index_select(0, rows.to(part.device))

        if self.loop is not None:
            self.loop.change_rows(select)
        else:
            self.state = change_rows(self.state, select)


class OpenRows(LoopRows):
    """Rows of a loop that gets one token at a time, without gradients. It multiplies by :class:`RepeatedProduct`."""

    def __init__(self, values: Tensor) -> None:
        super().__init__(values)
        self.is_shared = not torch.compiler.is_compiling()

    def share(self, factor: Tensor) -> Tensor:
        return factor

    def share_sum(self, base: Tensor, *weights: Tensor) -> Callable[..., Tensor]:
        """As in :class:`LoopRows`; the base is one row."""
        product = RepeatedProduct(weights, base[0], is_sum=True)
        return lambda step, *values: product(torch.cat(values, dim=1))

    def share_linear(self, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
        product = RepeatedProduct.of(layer)
        return lambda values: product(values.flatten(0, -2)).unflatten(0, values.shape[:-1])
