"""Model cards: what the Hub reads of them is what it knows, and what they tell their readers to do works.

The Hub checks this when a card arrives, and its pages are empty where a word is wrong. Without a Hub:

- pipeline tags are the text tasks of ``@huggingface/tasks`` 0.21.54 (``pipelines.js``), of which "text2text-generation"
  is none any more but a part of "text-generation"
- licences are those that this project and its data may come under, as the Hub spells them
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from attnzoo.pipelines import PIPELINES

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path for path in (ROOT / "model_cards").iterdir() if path.is_dir())
LICENSES = {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "other"}
PIPELINE_TAGS = {
    "text-classification",
    "token-classification",
    "question-answering",
    "zero-shot-classification",
    "translation",
    "summarization",
    "feature-extraction",
    "text-generation",
    "fill-mask",
    "sentence-similarity",
    "text-ranking",
}
METRIC = re.compile(r"[a-z0-9_]+")
DATASET = re.compile(r"[\w.-]+(/[\w.-]+)?")


def faults(card: str) -> list[str]:
    """What the Hub would not understand, or would not show."""
    found = re.match(r"---\n(.*?)\n---\n", card, flags=re.DOTALL)
    if found is None:
        return ["no metadata between lines of ---"]
    keys = re.findall(r"^([\w-]+):", found[1], flags=re.MULTILINE)
    said = [f"{key} is there twice" for key in sorted({key for key in keys if keys.count(key) > 1})]
    data: dict[str, Any] = yaml.safe_load(found[1])
    if data.get("license") not in LICENSES:
        said.append(f"license {data.get('license')!r} is not one of {', '.join(sorted(LICENSES))}")
    if data.get("license") == "other" and not {"license_name", "license_link"} <= data.keys():
        said.append("license 'other' needs a license_name and a license_link")
    if data.get("pipeline_tag") not in PIPELINE_TAGS:
        said.append(f"pipeline_tag {data.get('pipeline_tag')!r} is not one of {', '.join(sorted(PIPELINE_TAGS))}")
    if data.get("library_name") != "transformers":
        said.append(f"library_name {data.get('library_name')!r}: it is transformers whose Auto classes load the model")
    languages = data.get("language", [])
    for language in languages if isinstance(languages, list) else [languages]:
        if not re.fullmatch(r"[a-z]{2,3}", str(language)):  # YAML reads a bare no as False
            said.append(f"language {language!r} is no code of ISO 639")
    if "attnzoo" not in data.get("tags", []):
        said.append("tags lack attnzoo")
    said += [
        f"dataset {name!r} is no name on the Hub" for name in data.get("datasets", []) if not DATASET.fullmatch(name)
    ]
    said += [f"metric {name!r} is no id" for name in data.get("metrics", []) if not METRIC.fullmatch(name)]
    try:
        results = ModelCard(card).data.eval_results or []
    except ValueError as error:
        return [*said, f"model-index: {error}"]
    if not results:
        said.append("model-index has no results")
    for result in results:
        if result.metric_type not in data.get("metrics", []):
            said.append(f"model-index has {result.metric_type!r}, which is not among the metrics")
        if result.task_type != data.get("pipeline_tag"):
            said.append(f"model-index has the task {result.task_type!r}, not the pipeline_tag")
        if not isinstance(result.metric_value, int | float) or not result.dataset_split:
            said.append(f"model-index: {result.metric_type} needs a number and a split")
    return said


def read(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_hub_understands_every_card(folder: Path) -> None:
    assert faults(read(folder)) == []


@pytest.mark.parametrize(
    ("was", "becomes", "fault"),
    [
        ("license: apache-2.0", "license: apache2", "license 'apache2'"),
        ("license: apache-2.0", "license: other", "needs a license_name"),
        ("license: apache-2.0", "license: mit\nlicense: apache-2.0", "license is there twice"),
        ("pipeline_tag: text-generation", "pipeline_tag: text2text-generation", "pipeline_tag 'text2text-generation'"),
        ("library_name: transformers", "library_name: attnzoo", "library_name 'attnzoo'"),
        ("language: en", "language: no", "language False"),
        ("- attnzoo\n", "", "tags lack attnzoo"),
        ("metrics:\n- per", "metrics:\n- PER", "metric 'PER' is no id"),
        ("metrics:\n- per\n", "metrics:\n", "'per', which is not among the metrics"),
        ("metrics:\n- per", "datasets:\n- CMU dictionary\nmetrics:\n- per", "dataset 'CMU dictionary'"),
        ("      split: test\n", "", "needs a number and a split"),
        ("---\nlanguage", "language", "no metadata"),
        ("  results:", "  outcomes:", "model-index: "),
    ],
)
def test_each_fault_of_a_card_is_found(was: str, becomes: str, fault: str) -> None:
    card = read(ROOT / "model_cards" / "attentional-rnn-g2p-cmudict")
    assert was in card
    assert any(fault in said for said in faults(card.replace(was, becomes, 1)))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_cards_snippets_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    snippets = re.findall(r"```python\n(.*?)```", read(folder), flags=re.DOTALL)
    assert snippets
    names: dict[str, Any] = {}
    for snippet in snippets:
        exec(snippet, names)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_card_is_of_the_files_beside_it(folder: Path) -> None:
    card = read(folder)
    for target in re.findall(r"\]\(([^)#]+)\)", card):
        assert target.startswith("https://") or (folder / target).exists(), target
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    assert f"seed {recipe['training']['seed']}" in card
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == recipe["model"]["model_type"]
    data = ModelCard(card).data
    has_pipeline = any(class_.card_tag in (*data.tags, data.pipeline_tag) for class_ in PIPELINES.values())
    assert has_pipeline == bool(config.get("is_encoder_decoder"))  # Transformers has one for all others
    assert not [path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
