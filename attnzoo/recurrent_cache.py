"""The cache that carries a recurrent decoder's state through ``generate()``.

Dimensions: B batch, S source length.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache

from .attention import Source
from .recurrent_decoder import DecoderState
from .state_layer import StateLayer

# The fields of a config that decide the form of a state and its source.
FORM = (
    *("wiring", "cell", "score", "input_feeding", "coverage", "decoder_layers", "decoder_hidden_size"),
    *("encoder_output_size", "attention_size", "readout_size"),
)


class _RecurrentCacheLayer(StateLayer):
    """A decoder's state and its source."""

    def __init__(self) -> None:
        super().__init__()
        self.state: DecoderState | None = None
        self.source: Source | None = None
        self.config: Any = None  # that of the model that made the state

    def reorder_cache(self, beam_idx: Tensor) -> None:
        # Beams move only within their source. So the source stays as it is, here and in encoder_outputs.
        if self.state is not None:
            self.state = self.state.map(lambda part: part.index_select(0, beam_idx.to(part.device)))

    def change_rows(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change the rows of the state, and those of the source if each target has its own row of it."""
        if self.state is None:
            return
        if self.source is not None and len(self.source.mask) == len(self.state.top):
            self.source = Source(*map(change, self.source))
        self.state = self.state.map(change)

    def reset(self) -> None:
        self.state, self.source, self.length, self.is_initialized = None, None, 0, False


class RecurrentDecoderCache(Cache):
    """The decoder's state and its source, as ``past_key_values`` carries them through ``generate()``.

    It holds the state after the last token, not one state per token. So it cannot be cropped, and assisted decoding is
    not possible. Beam search reorders it row by row.
    """

    def __init__(self) -> None:
        self._layer = _RecurrentCacheLayer()
        super().__init__(layers=[self._layer])

    def crop(self, tokens_to_remove: int) -> None:
        """Raise an error: a state cannot be taken back to an earlier token."""
        raise NotImplementedError(
            "a recurrent state cannot be cropped: it holds the last token's state, not one per token"
        )

    def store(self, state: DecoderState, source: Source | None, num_tokens: int, config: Any) -> None:
        """Replace the state by the one after ``num_tokens`` more tokens; without attention there is no source."""
        self._layer.state, self._layer.source = state, source
        self._layer.length += num_tokens
        self._layer.config = config
        self._layer.is_initialized = True

    def load(self, config: Any, batch: tuple[int, ...]) -> tuple[DecoderState | None, Source | None, int]:
        """The state, or None before the first token, the source, and the number of tokens read.

        Args:
            config: the config of the decoder that continues
            batch: the numbers of targets and of sources, and the source length

        Raises:
            ValueError: the cache is from a model with another config, another batch or a source of another length.
        """
        layer = self._layer
        if layer.state is None:
            return None, None, 0
        if layer.config is not config:
            _check_form(layer.config, config)
        made_from: tuple[int, ...] = (layer.state.top.shape[0],)
        if layer.source is not None:  # without attention the cache does not have the source's size
            made_from = (*made_from, *layer.source.mask.shape)
        if made_from != batch[: len(made_from)]:
            raise ValueError(
                f"past_key_values is of another batch: (targets, sources, source length) were {made_from} and are "
                f"{batch[: len(made_from)]}; continue with the source that the cache was made from"
            )
        return layer.state, layer.source, layer.length


def _check_form(made_with: Any, config: Any) -> None:
    differing = [name for name in FORM if getattr(made_with, name) != getattr(config, name)]
    if differing:
        was, own = ({name: getattr(one, name) for name in differing} for one in (made_with, config))
        raise ValueError(f"past_key_values is from another model: it was made with {was}, and this one has {own}")


def check_target_mask(attention_mask: Tensor | None, embeddings: Tensor, step: int) -> None:
    """Raise an error if the target has padding before a token: a recurrent decoder would read it into its state."""
    if attention_mask is None:
        return
    rows, length = embeddings.shape[:2]
    if attention_mask.shape not in ((rows, length), (rows, step + length)):
        raise ValueError(
            f"decoder_attention_mask must be (batch, target length) = {(rows, step + length)}, "
            f"got {tuple(attention_mask.shape)}"
        )
    if bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any()):
        raise ValueError("decoder_attention_mask has padding before a token; pad the target on the right")
