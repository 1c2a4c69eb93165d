"""Compare the outputs of an exported model with those of PyTorch, on a batch of padded rows."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnzoo.export import OnnxModel, to_onnx
from tests.factory import EVERY_PADDING, labels_for, padded

NEW_TOKENS = 7  # more than a monotonic window or a table of positions of the tiny models has places for
TOLERANCE = 1e-4


def exported(model: Any, folder: Path, **options: Any) -> OnnxModel:
    return OnnxModel(to_onnx(model, folder, **options), threads=1)


def arrays(batch: dict[str, Any]) -> list[np.ndarray]:
    return [batch[name].numpy() for name in ("input_ids", "attention_mask")]


def assert_close(actual: np.ndarray, expected: Any, what: str) -> None:
    difference = np.abs(actual - np.asarray(expected)).max()
    assert difference < TOLERANCE, f"{what} differ by {difference}"


@torch.no_grad()
def assert_generates_as_pytorch(model: Any, folder: Path) -> None:
    """Compare the tokens of ``generate()``, and logits and alignments of given tokens, two outputs for each source."""
    found = exported(model, folder)
    for batch in (padded([[1]]), padded(EVERY_PADDING)):  # one token, and rows of every padding
        length = batch["input_ids"].shape[1] if found.task == "continuation" else 1
        expected = model.generate(**batch, max_new_tokens=NEW_TOKENS, num_beams=1, do_sample=False)[:, length:]
        tokens = found.generate(*arrays(batch), max_new_tokens=NEW_TOKENS, num_beams=1).tokens
        assert tokens.tolist() == expected.tolist()
    for name in ("input_ids", "attention_mask"):  # another length and another batch than before
        batch[name] = torch.nn.functional.pad(batch[name], (2, 1))[1:]
    rows = batch["input_ids"].shape[0]
    given = labels_for(model, 2 * rows, 5).clamp(min=3)
    logits, attention = found.forced_decode(*arrays(batch), given.numpy())
    each = {name: part.repeat_interleave(2, dim=0) for name, part in batch.items()}
    if found.task == "continuation":
        mask = torch.cat([each["attention_mask"], torch.ones_like(given)], dim=1)
        outputs = model(input_ids=torch.cat([each["input_ids"], given], dim=1), attention_mask=mask)
        assert_close(logits, outputs.logits[:, batch["input_ids"].shape[1] - 1 : -1], "logits")
        return
    start = torch.full((2 * rows, 1), model.config.decoder_start_token_id)
    read = torch.cat([start, given[:, :-1]], dim=1)
    outputs = model(**each, decoder_input_ids=read, output_attentions=True)
    assert_close(logits, outputs.logits, "logits")
    if outputs.cross_attentions:
        assert attention is not None
        assert_close(attention, outputs.cross_attentions[-1].mean(dim=1), "alignments")
    else:
        assert attention is None
