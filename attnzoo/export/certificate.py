"""The certificate of an export: how much it differs from its model, measured on texts and random tokens.

Dimensions: B texts, S source length, T tokens.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..decoding.token_search import search
from ..json_files import read_mapping
from .run import DETAILS, OnnxModel

BEAMS = 5
BATCHES = (1, 64)
MAX_DIFFERENCE = 1e-4  # of logits in float32
# Tokens to generate after random ones. In a longer search, beams become so similar that rounding decides between them.
RANDOM_STEPS = 64
MIN_MEASURED = 1000  # texts; with fewer, one text changes a figure too much
MAX_CHANGE = {"per": 0.3, "wer": 0.3, "accuracy": 0.3, "bleu": 0.5}  # of a figure in int8, in points


@torch.no_grad()
def certify(
    model: Any,
    exported: OnnxModel,
    tokenizer: Any = None,
    texts: Sequence[str] = (),
    pairs: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compare an export with its model: on ``texts``, alone and in batches of 64, and on random tokens.

    The random rows are longer and shorter than any text, padded on the left and on the right.

    Returns:
        "examples", the number of comparisons; "greedy" and "beams" (or "predictions" for a model that does not
        generate), the number of outputs that were the same; "logits" and "attention", the largest differences; "texts",
        the number of texts
    """
    model.eval()
    found: dict[str, Any] = {"texts": len(texts), "examples": 0, "logits": 0.0}
    batches = list(_batches(tokenizer, exported, texts, pairs))
    longest = max([8, *(batch["input_ids"].shape[1] for batch in batches)])
    most = getattr(getattr(model, "generation_config", None), "max_new_tokens", None)
    fewer = RANDOM_STEPS if most is not None and most > RANDOM_STEPS else None
    limited: list[tuple[int | None, dict[str, Tensor]]] = [(None, batch) for batch in batches]
    limited += [(fewer, batch) for batch in _random_batches(model, exported, longest)]
    for steps, batch in limited:
        found["examples"] += len(batch["input_ids"])
        if exported.generates:
            compared = _compare_generation(model, exported, batch, steps)
        else:
            compared = _compare_reading(model, exported, batch)
        for name, value in compared.items():
            is_count = name in ("greedy", "beams", "predictions")
            found[name] = found.get(name, 0) + value if is_count else max(found.get(name, 0.0), value)
    return found


def faults(certificate: dict[str, Any], weights: str) -> list[str]:
    """The faults that a certificate shows: values that are not finite, other outputs in float32, a figure that changed
    too much in int8.
    """
    differences = {name: certificate.get(name, 0.0) for name in ("logits", "attention")}
    found = [f"{name} has values that are not finite" for name, most in differences.items() if not math.isfinite(most)]
    if weights == "float32":
        if MAX_DIFFERENCE < differences["logits"] < math.inf:
            found.append(f"logits differ by {certificate['logits']:.1e}, more than {MAX_DIFFERENCE:.0e}")
        # CTranslate2's beam search has rules of its own.
        for name in ("greedy", "beams", "predictions") if "logits" in certificate else ("greedy",):
            if certificate.get(name, certificate["examples"]) < certificate["examples"]:
                found.append(f"{name}: {certificate[name]} of {certificate['examples']} outputs are the same")
    for key, (before, after) in certificate.get("scores", {}).items():
        is_measured = certificate["scored"] >= MIN_MEASURED and key in MAX_CHANGE
        if is_measured and abs(after - before) > MAX_CHANGE[key]:
            name, unit = certificate["metrics"][key]
            change = f"is {after:.2f}{unit} and was {before:.2f}{unit}, a change of more than {MAX_CHANGE[key]} points"
            found.append(f"{name} {change}")
    return found


def _batches(
    tokenizer: Any, exported: OnnxModel, texts: Sequence[str], pairs: Sequence[str] | None
) -> Iterator[dict[str, Tensor]]:
    """The texts, alone and in batches."""
    side = "left" if exported.task == "continuation" else "right"
    for size in BATCHES:
        for first in range(0, len(texts), size):
            chosen = [list(part[first : first + size]) for part in (texts, pairs) if part is not None]
            batch = tokenizer(*chosen, padding=True, padding_side=side, return_tensors="pt")
            yield {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
            if size == 1 and first == BATCHES[1] - 1:
                break  # as many texts alone as in one batch


def _random_batches(model: Any, exported: OnnxModel, longest: int) -> Iterator[dict[str, Tensor]]:
    """Random tokens in rows longer and shorter than ``longest``, padded on the left and on the right."""
    generator = torch.Generator().manual_seed(0)
    limit = (
        model.config.max_position_embeddings if getattr(model.config, "position_embedding", "") == "learned" else 512
    )
    width = min(longest + 5, limit)
    lengths = torch.tensor([1, width, 2, max(1, width - 1)])
    for is_left in (False, True):
        if is_left and exported.task == "continuation":
            lengths = lengths.flip(0)
        steps = torch.arange(width)
        mask = ((steps.flip(0) if is_left or exported.task == "continuation" else steps) < lengths[:, None]).long()
        if getattr(model.config, "sentence_pair", False):
            mask[:, [0, -1]] = 1
        ids = torch.randint(model.config.vocab_size, mask.shape, generator=generator)
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": (steps > 0).long().expand_as(mask)}


def _compare_generation(model: Any, exported: OnnxModel, batch: dict[str, Tensor], steps: int | None) -> dict[str, Any]:
    """``steps``: the largest number of new tokens; None for the limit of the model's generation config."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    prompt = ids.shape[1] if exported.task == "continuation" else 1
    same = {}
    tokens = ids
    for name, beams in (("beams", BEAMS), ("greedy", 1)):
        options = {"num_beams": beams, "do_sample": False, "custom_generate": search}
        options |= {} if steps is None else {"max_new_tokens": steps}
        tokens = model.generate(input_ids=ids, attention_mask=mask, **options)[:, prompt:]
        found = exported.generate(ids.numpy(), mask.numpy(), num_beams=beams, max_new_tokens=steps).tokens
        same[name] = sum(
            _until_end(a, exported.ends) == _until_end(b, exported.ends)
            for a, b in zip(tokens.tolist(), found.tolist(), strict=True)
        )
    tokens = tokens[:, :64]
    logits, attention = exported.forced_decode(ids.numpy(), mask.numpy(), tokens.numpy())
    if exported.task == "continuation":
        whole = torch.cat([mask, torch.ones_like(tokens)], dim=1)
        outputs = model(input_ids=torch.cat([ids, tokens], dim=1), attention_mask=whole)
        expected, weights = outputs.logits[:, prompt - 1 : -1], None
    else:
        start = torch.full_like(tokens[:, :1], model.config.decoder_start_token_id)
        read = torch.cat([start, tokens[:, :-1]], dim=1)
        outputs = model(input_ids=ids, attention_mask=mask, decoder_input_ids=read, output_attentions=True)
        expected = outputs.logits
        weights = outputs.cross_attentions[-1].mean(dim=1) if outputs.cross_attentions else None
    differences = {"logits": _difference(logits, expected)}
    if weights is not None and attention is not None:
        differences["attention"] = _difference(attention, weights)
    return same | differences


def _compare_reading(model: Any, exported: OnnxModel, batch: dict[str, Tensor]) -> dict[str, Any]:
    if not getattr(model.config, "sentence_pair", False):
        batch.pop("token_type_ids", None)
    has_attention = exported.config["model_type"] == "self_attentive"
    outputs = model(**batch, output_attentions=has_attention, return_dict=True)
    found = exported.outputs("model", **{name: part.numpy() for name, part in batch.items()})
    logits, expected = found["logits"], outputs.logits
    if logits.ndim == 3:
        is_real = batch["attention_mask"].bool()
        logits, expected = logits[is_real.numpy()], expected[is_real]
    agrees = logits.argmax(axis=-1) == expected.argmax(dim=-1).numpy()
    rows = len(agrees) if found["logits"].ndim == 2 else len(found["logits"])
    same = int(agrees.sum()) if found["logits"].ndim == 2 else rows * int(agrees.all())
    result = {"predictions": same, "logits": _difference(logits, expected)}
    if has_attention:
        result["attention"] = _difference(found["attention"], outputs.attentions[0][:, 0])
    return result


def _until_end(tokens: list[int], ends: list[int]) -> list[int]:
    return tokens[: next((n for n, token in enumerate(tokens) if token in ends), len(tokens))]


def _difference(actual: np.ndarray, expected: Tensor) -> float:
    largest = float(np.abs(actual - expected.numpy()).max(initial=0.0))
    return math.inf if math.isnan(largest) else largest  # max() of Python, which compares batches, would drop NaN


CARD = """\
# {name} for {engine}

`{name}` {what}. It runs without PyTorch:

{use}
## Compared with PyTorch

Measured by `attnzoo export` when it made the folder{data}.{how}

| | |
|---|---|
{rows}
"""
USE = """\
```sh
# Takes a folder with this card; needs no network afterwards.
pip install numpy tokenizers onnxruntime
python run.py {example}
```

```python
# Needs this folder as the working directory.
from run import OnnxModel

print(OnnxModel(".")({example}))
```

"""
USE_CTRANSLATE2 = """\
```python
# Needs this folder as the working directory, and: pip install ctranslate2 tokenizers
import ctranslate2
from tokenizers import Tokenizer

translator, tokenizer = ctranslate2.Translator("."), Tokenizer.from_file("tokenizer.json")
tokenizer.no_padding()
(result,) = translator.translate_batch([tokenizer.encode({example}).tokens], beam_size=5)
print(tokenizer.decode([tokenizer.token_to_id(token) for token in result.hypotheses[0]]))
```
"""
HOW = """ Texts are read alone
and in batches of 64. Rows of random tokens are longer and shorter than any text, and are padded on either side."""
LOOPS = "`encoder.onnx` reads a source, `step.onnx` makes the next token, and `greedy.onnx` has the loop inside.\n\n"


def figures(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """The figures of a certificate: what was measured, and its value as text."""
    examples = certificate["examples"]
    largest = {"logits": "largest difference of logits", "attention": "largest difference of attention weights"}
    rows = [(said, f"{certificate[key]:.1e}") for key, said in largest.items() if key in certificate]
    counts = {
        "greedy": "same greedy outputs",
        "beams": f"same outputs of beam {BEAMS}",
        "predictions": "same predictions",
    }
    rows += [(said, f"{certificate[key]} of {examples}") for key, said in counts.items() if key in certificate]
    for key, (before, after) in certificate.get("scores", {}).items():
        how = ", greedy search" if "greedy" in certificate else ""
        name, unit = certificate["metrics"][key]
        said = f"{name} of {certificate['scored']:,} texts{how}, by PyTorch and by the export"
        rows.append((said, f"{before:.2f}{unit} and {after:.2f}{unit}"))
    return rows


def write_card(folder: Path, certificate: dict[str, Any], name: str, header: str, example: str) -> None:
    """Write ``README.md`` of an export, and the certificate into its details.

    Args:
        folder: the folder of the export
        certificate: from :func:`certify`; "scores", if it is there, has the figures (PyTorch's, the export's) of each
            key, and "metrics" the name and the unit
        name: the name of the model
        header: the YAML header, without its lines of dashes
        example: a text, as a literal of Python
    """
    path = folder / DETAILS
    details = read_mapping(path) | {"certificate": certificate}
    path.write_text(json.dumps(details, indent=2) + "\n", encoding="utf-8")
    rows = figures(certificate)
    files = sorted([*folder.glob("*.onnx"), *folder.glob("model.bin")])
    rows += [(f"`{file.name}`", f"{file.stat().st_size:,} bytes") for file in files]
    is_onnx, weights = details["task"] != "ctranslate2", details["weights"]
    loops = LOOPS if (folder / "step.onnx").is_file() else ""
    text = CARD.format(
        name=name,
        engine="ONNX Runtime" if is_onnx else "CTranslate2",
        what=f"as ONNX graphs, with weights in {weights}" if is_onnx else f"for CTranslate2, with weights in {weights}",
        use=(USE if is_onnx else USE_CTRANSLATE2).format(example=example) + loops,
        data=f" on {certificate['texts']} texts" if certificate["texts"] else ", on random tokens only",
        how=HOW if is_onnx else "",
        rows="\n".join(f"| {what} | {value} |" for what, value in rows),
    )
    if (folder / "MODEL_CARD.md").is_file():
        text += "\nThe card of the model is [`MODEL_CARD.md`](MODEL_CARD.md).\n"
    (folder / "README.md").write_text(f"---\n{header.strip()}\n---\n\n{text}", encoding="utf-8")
