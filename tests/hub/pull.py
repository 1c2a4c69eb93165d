"""Use a repository as a user does: load it by every Auto class of its family, and compute.

    python -P pull.py TODO attnzoo|none FOLDER

It uses only the package of this project or, without the package, only the code in the repository.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file


def save_outputs(todo: Iterable[tuple[str, str, str, list[str]]], package: str, folder: Path) -> None:
    """Write ``LABEL.safetensors`` for each (repository, revision, label, Auto classes).

    A repository without a revision is a local folder.
    """
    for name, revision, label, auto_classes in todo:
        options = {"trust_remote_code": package != "attnzoo"} | ({"revision": revision} if revision else {})
        config = transformers.AutoConfig.from_pretrained(name, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
        texts = ["attention"] * (2 if getattr(config, "sentence_pair", False) else 1)
        inputs = tokenizer(*texts, return_tensors="pt")
        if config.model_type != "self_attentive":
            inputs.pop("token_type_ids", None)
        target = {"decoder_input_ids": inputs["input_ids"][:, :4]} if config.is_encoder_decoder else {}
        found = {"input_ids": inputs["input_ids"]}
        for auto in auto_classes:
            torch.manual_seed(0)  # for the weights of a head that the repository lacks
            model = getattr(transformers, auto).from_pretrained(name, **options)
            assert type(model).__module__.startswith("attnzoo." if package == "attnzoo" else "transformers_modules.")
            assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
            with torch.no_grad():
                found[auto] = model(**inputs, **target)[0].contiguous()
            if model.can_generate():
                found["generated"] = model.generate(**inputs, max_new_tokens=5).contiguous()
        save_file(found, folder / f"{label}.safetensors")


if __name__ == "__main__":
    try:
        import attnzoo  # noqa: F401  (registers its Auto classes)

        has_package = True
    except ImportError:
        has_package = False
    assert has_package == (sys.argv[2] == "attnzoo")
    save_outputs(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
