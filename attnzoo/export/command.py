"""``attnzoo export``: load a folder, write the export, certify it, write its card."""

import json
import re
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from ..json_files import read_mapping
from ..loading import load_trained
from ..new_folders import new_folder
from ..registered_models import auto_classes
from .certificate import certify, faults, write_card
from .ctranslate2_folder import certify_translations, to_ctranslate2
from .graph import Weights
from .onnx_folder import to_onnx
from .pipeline_model import OnnxForPipelines
from .run import DETAILS, OnnxModel, require_unchanged

CERTIFIED = 200  # texts whose outputs are compared; figures are of all texts that are given


def export_folder(source: str, folder: Path, form: str, weights: Weights, task: Any, check: bool) -> dict[str, Any]:
    """Export the model of a folder, or with ``check`` certify an export of it anew; returns the certificate.

    Args:
        source: the folder of the model, or its Hub id
        folder: the folder of the export
        form: "onnx" or "ctranslate2"
        weights: how weights are stored
        task: the model's task with its test split, to measure outputs and figures on; None for random tokens alone
        check: whether to certify an existing export

    Raises:
        ValueError, FileExistsError: as :func:`attnzoo.export.to_onnx`; or the certificate has faults. The export is
            removed then, unless it was there before.
    """
    model, tokenizer = load(source), AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    card = Path(source) / "README.md"
    text = card.read_text(encoding="utf-8") if card.is_file() else None
    write, certify_folder = (to_onnx, measure) if form == "onnx" else (to_ctranslate2, measure_translations)
    with nullcontext(folder) if check else new_folder(folder) as part:
        if check:
            weights = weights_of(folder, form, model)
        else:
            write(model, part, tokenizer, weights, text)
        certificate = certify_folder(model, tokenizer, part, task)
        if found := faults(certificate, weights):
            remedy = "export it again" if check else "nothing was written; try other --weights"
            raise ValueError(f"{folder} differs from what PyTorch computes: {'; '.join(found)} ({remedy})")
        if not check:
            write_card(part, certificate, Path(source).name, header_of(text), example_of(task))
    return certificate


def weights_of(folder: Path, form: str, model: Any) -> Weights:
    """How the weights of an export are stored.

    Raises:
        FileNotFoundError: the folder has no export. ValueError: the export has another form, or its model another
        config.
    """
    if not (folder / DETAILS).is_file():
        raise FileNotFoundError(
            f"{folder} is not an exported model: it has no {DETAILS}; to make one leave --check out"
        )
    details = read_mapping(folder / DETAILS)
    found = "ctranslate2" if details.get("task") == "ctranslate2" else "onnx"
    if found != form:
        raise ValueError(f"{folder} is an export to {found}; add --format {found}")
    if details.get("model_class") != type(model).__name__:
        raise ValueError(f"{folder} is an export of {details.get('model_class')}, not of {type(model).__name__}")
    if form == "onnx":
        exported = read_mapping(folder / "config.json")
        own = json.loads(model.config.to_json_string(use_diff=False))
        for key in sorted(exported.keys() & own.keys() - {"transformers_version", "dtype", "_name_or_path"}):
            if exported[key] != own[key]:
                raise ValueError(
                    f"{folder} is an export of another model: its {key} is {exported[key]!r}, not {own[key]!r}"
                )
    require_unchanged(folder, details)
    weights: Weights = details["weights"]
    return weights


def load(source: str) -> Any:
    """The model of a folder or a Hub id, by the architecture that its config names.

    Raises:
        ValueError: the config names no model of the zoo.
    """
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    names = config.architectures or []
    for model_class in auto_classes(config).values():
        if model_class.__name__ in names:
            return load_trained(model_class, source)
    raise ValueError(f"{source} is not a model of attnzoo: its config names the architectures {names}")


def measure_translations(model: Any, tokenizer: Any, folder: Path, task: Any) -> dict[str, Any]:
    """The certificate of an export to CTranslate2, on the test split of the model's task or on random tokens."""
    texts = [] if task is None else task.splits["test"][task.columns[0]][:CERTIFIED]
    return certify_translations(model, tokenizer, folder, texts)


def measure(model: Any, tokenizer: Any, folder: Path, task: Any) -> dict[str, Any]:
    """The certificate, with the task's figures for PyTorch and for the export if they can be computed on its test
    split.

    Generated outputs are those of greedy search, with the length limit of the task.
    """
    exported = OnnxModel(folder)
    if task is None:
        return certify(model, exported)
    rows = task.splits["test"]
    sides = [rows[column][:] for column in (task.columns[:1] if exported.generates else task.columns)]
    if exported.task in ("continuation", "fill-mask"):  # long texts, whose figures need probabilities
        beginnings = [" ".join(text.split()[:30]) for text in sides[0]]
        return certify(model, exported, tokenizer, [text for text in beginnings if text][:CERTIFIED])
    certificate = certify(model, exported, tokenizer, *(side[:CERTIFIED] for side in sides))
    # Greedy search, since a test split may have thousands of texts.
    options: dict[str, Any] = {"num_beams": 1} if exported.generates else {}
    with warnings.catch_warnings():  # of unknown words, which a test split has
        warnings.simplefilter("ignore", UserWarning)
        found = [task.predict(one, tokenizer, "test", **options) for one in (model, OnnxForPipelines(folder))]
    scores = [task.measure("test", predictions) for predictions in found]
    certificate["scored"] = len(rows)
    certificate["scores"] = {key: [score[key] for score in scores] for key in task.metric_names if key in scores[0]}
    certificate["metrics"] = {key: [task.metric_names[key], task.units.get(key, "")] for key in certificate["scores"]}
    return certificate


def example_of(task: Any) -> str:
    """A text for the card, as a literal of Python and of a shell."""
    example = None if task is None else task.card.example
    if isinstance(example, dict):
        example = next(iter(example.values()))
    return json.dumps(example if isinstance(example, str) else "a text", ensure_ascii=False)


def header_of(card: str | None) -> str:
    """The YAML header of the model's card, for ONNX Runtime."""
    found = re.match(r"---\n(.*?)\n---\n", card or "", re.DOTALL)
    header = found[1] if found else "library_name: transformers"
    header = re.sub(r"^library_name:.*$", "library_name: onnxruntime", header, flags=re.MULTILINE)
    return re.sub(r"^tags:$", "tags:\n- onnx", header, flags=re.MULTILINE)
