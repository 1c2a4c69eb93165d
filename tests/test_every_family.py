"""What holds for all families alike, asked of every one of them and of every head.

What they have of their own is in ``test_transformers_contract``, ``test_self_attentive_contract`` and
``test_small_transformer_contract``.
"""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from .families import KINDS, batch_for, make_model

every_kind = pytest.mark.parametrize("kind", KINDS)


def compute(model: Any) -> Tensor:
    with torch.no_grad():
        return model(**batch_for(model, with_labels=False))[0]


# Weights --------------------------------------------------------------------------------------------------------------


class Malicious:
    """Whoever unpickles it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self.mark), "w")


@every_kind
def test_no_pickle_is_ever_loaded(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*model*")] == ["model.safetensors"]
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")  # a good one, even
    with pytest.raises(OSError, match=r"model\.safetensors"):
        type(model).from_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        type(model).from_pretrained(tmp_path, use_safetensors=None)
    with pytest.raises(ValueError, match="use_safetensors=False would load a pickle, which may run code"):
        type(model).from_pretrained(tmp_path, use_safetensors=False)
    mark = tmp_path / "was run"
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Malicious(mark)))
    with pytest.raises(OSError, match="damaged or incomplete"):
        type(model).from_pretrained(tmp_path)
    assert not mark.exists()
    pickle.loads((tmp_path / "model.safetensors").read_bytes()).close()
    assert mark.exists()  # so it is one that would have been seen


@every_kind
def test_damaged_weights_are_said_to_be(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match="damaged or incomplete") as caught:
        type(model).from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)
