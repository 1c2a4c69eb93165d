"""The outputs of a model for a short text, computed here or compared in a fresh process.

    python -P sample_outputs.py EXPECTED AUTO_CLASS FOLDER package|code

compares the outputs of a folder's model with those in a file of safetensors. They are computed in double precision,
since the last digits in single precision depend on the library that multiplies. With ``code`` the
package is hidden, as for a user without attnzoo: the folder's own code runs.
"""

import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

CLOSE = 1e-9  # a difference of outputs that rounding explains


def save_outputs(path: Path, folder: Path, auto_class: str) -> None:
    """Write the outputs of a folder's model to a file, for a fresh process.

    Raises:
        OSError: the model cannot be loaded.
        ValueError: a weight is missing in its files, or its outputs are NaN.
    """
    computed = outputs(folder, auto_class, is_trusted=False)
    if computed.isnan().any():
        raise ValueError("its outputs are NaN (not a number): the training that made these weights failed")
    save_file({"outputs": computed}, path)


def outputs(folder: Path, auto_class: str, is_trusted: bool) -> torch.Tensor:
    """The first of a model's outputs: its logits, if it has a head."""
    auto = getattr(transformers, auto_class)
    options: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": is_trusted, "output_loading_info": True}
    options["dtype"] = torch.float64
    model, found = auto.from_pretrained(folder, **options)
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"its files lack {len(missing)} of its weights, such as {missing[0]}")
    config = model.config
    ids = torch.arange(5).remainder(len(model.get_input_embeddings().weight)).view(1, 5)
    if config.eos_token_id is not None:  # some classifiers read the end
        ids[:, -1] = torch.as_tensor(config.eos_token_id).flatten()[0]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :4]
    if getattr(config, "sentence_pair", False) or getattr(config, "type_vocab_size", 1) > 1:  # two texts
        inputs["token_type_ids"] = torch.tensor([[0, 0, 1, 1, 1]])
    with torch.no_grad():
        return model(**inputs, return_dict=True)[0].contiguous()


def main(arguments: list[str]) -> None:
    """Run the command line."""
    path, auto_class, folder, source = arguments
    if source == "code":
        sys.modules["attnzoo"] = None  # type: ignore[assignment]  # as if it were not installed
    else:
        import attnzoo  # noqa: F401  (registers the models with the Auto classes)
    transformers.utils.logging.disable_progress_bar()
    expected = load_file(path)["outputs"]
    try:
        computed = outputs(Path(folder), auto_class, is_trusted=source == "code")
        if source == "code":
            config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
            for pipeline in getattr(config, "custom_pipelines", {}).values():
                get_class_from_dynamic_module(pipeline["impl"], folder)
    except Exception as error:  # of any class; one line for the process that started this one
        sys.exit(f"{type(error).__name__}: {error}")
    if expected.shape != computed.shape:
        sys.exit(f"the outputs have the shape {tuple(computed.shape)} instead of {tuple(expected.shape)}")
    if not torch.allclose(expected, computed, rtol=CLOSE, atol=CLOSE):
        sys.exit(f"the outputs differ by {(expected - computed).abs().max().item()}")


if __name__ == "__main__":
    main(sys.argv[1:])
