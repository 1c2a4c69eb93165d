"""What a model computes for two short texts; run as a program, whether a fresh process computes it, too.

    python -P sample_outputs.py EXPECTED AUTO_CLASS REPO_ID REVISION package|code

compares the outputs of a repository's model, bit for bit, with those in a file of safetensors. With ``code`` it does
without the package, as a user does who has none: what is run is the repository's.
"""

import inspect
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file


def save_outputs(path: Path, name: str | Path, auto_class: str) -> None:
    """Write the outputs of a folder's model where a fresh process finds them.

    Raises:
        OSError, ValueError: the model cannot be loaded, or only in part.
    """
    save_file({"outputs": outputs(name, auto_class)}, path)


def outputs(name: str | Path, auto_class: str, **options: Any) -> torch.Tensor:
    """The first of a model's outputs: its logits, if it has a head.

    Raises:
        OSError: the model cannot be loaded.
        ValueError: it can, but a weight is not in its files, which are those of another model or of a part.
    """
    auto = getattr(transformers, auto_class)
    model, found = auto.from_pretrained(name, use_safetensors=True, output_loading_info=True, **options)
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"its files lack {len(missing)} of its weights, such as {missing[0]}")
    model.eval()
    ids = torch.arange(10).remainder(model.config.vocab_size).view(2, 5)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :4]
    if "token_type_ids" in inspect.signature(model.forward).parameters:  # two texts
        inputs["token_type_ids"] = torch.tensor([0, 0, 1, 1, 1]).expand(2, 5)
    with torch.no_grad():
        return model(**inputs, return_dict=True)[0].contiguous()


def main(arguments: list[str]) -> None:
    """Run the command line."""
    path, auto_class, repo_id, revision, source = arguments
    if source == "code":
        sys.modules["attnzoo"] = None  # type: ignore[assignment]  # as if it were not installed
    else:
        import attnzoo  # noqa: F401  (registers the models with the Auto classes)
    transformers.utils.logging.disable_progress_bar()
    expected = load_file(path)["outputs"]
    try:
        computed = outputs(repo_id, auto_class, revision=revision, trust_remote_code=source == "code")
    except Exception as error:  # whatever the repository's code may raise, in one line for the process that asked
        sys.exit(f"{type(error).__name__}: {error}")
    if expected.shape != computed.shape:
        sys.exit(f"the outputs have the shape {tuple(computed.shape)} instead of {tuple(expected.shape)}")
    if not torch.equal(expected, computed):
        sys.exit(f"the outputs differ by {(expected - computed).abs().max().item()}")


if __name__ == "__main__":
    main(sys.argv[1:])
