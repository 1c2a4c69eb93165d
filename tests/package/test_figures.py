"""The figures of the pages are those of the files that measurements wrote.

A cell of a table is compared if its row names a trained model or links a recipe, and its column has the name of a
metric. ``SAID`` has figures in sentences and in other rows. Figures of other programs, and of studies that store no
file, have no source here; ``WITHOUT_SOURCE`` lists the tables that have only such figures.
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import yaml
from attnzoo.training.results import OWN, read_rows
from attnzoo.training.studies import recall, why_attention
from attnzoo.training.studies.claims import command
from attnzoo.training.studies.claims.frame import NAMES, load_claim

from attnzoo import list_models, model_info
from tests.benchmarks import language_tables, older_figures, page_tables

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
BY_PROGRAM = re.compile(r"<!-- written by python -m attnzoo.training.zoo -->.*?<!-- end of the zoo -->", re.DOTALL)
PAGES = {  # test_zoo.py has the tables that a program writes
    str(path.relative_to(ROOT)): BY_PROGRAM.sub("", path.read_text(encoding="utf-8")) for path in PATHS
}


def stored(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


RESULTS = {(row["model"], row["test_set"], row["metric"]): row for row in read_rows(ROOT / "results" / "results.csv")}
MODELS = {name: model_info(name) for name in list_models()}
METRICS = {figure["name"]: figure["key"] for model in MODELS.values() for figure in model["figures"]}
RECIPES = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")).get("expected") for path in ROOT.glob("configs/*.yaml")
}
BENCH, WHY = stored("docs/bench.json"), stored("docs/why_attention.json")
DEMO = stored("docs/demo.json")
CERTIFICATES = stored("docs/certificates.json")["certificates"]
GPU, H100 = stored("tests/benchmarks/gpu.json"), stored("tests/benchmarks/h100.json")
RECALL = (  # means of the seeds
    recall.best_rows(pd.read_csv(ROOT / "docs" / "recall.csv"))
    .groupby(["data.task", "model.sequence_mixer.name", "model.d_model", "test_source_length"])["valid/accuracy"]
    .mean()
)
BEGINS = re.compile(r"-?[\d,]+\.\d+")  # a cell that begins with a figure


def shows(text: str, value: float) -> bool:
    """Whether a text is the value, rounded to the digits of the text: "1,055", "47.9 %", "2.0 million"."""
    number, *unit = text.split()
    rounded = f"{value / 1e6 if unit == ['million'] else value:.{len(number.partition('.')[2])}f}"
    return number.replace(",", "") == rounded


def split(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


# Tables --------------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        page: the name of its page.
        row: its line.
        column: the header of its column.
        text: what is in it.
    """

    page: str
    row: str
    column: str
    text: str


def tables(page: str) -> Iterator[tuple[str, list[Cell]]]:
    """For each table that no program writes, the header of its first column, and the cells of the others."""
    text = page_tables.PLACE.sub("", PAGES[page])
    for block in re.findall(r"^\|.*\n\|[ |-]+\|\n(?:\|.*\n)+", text, flags=re.MULTILINE):
        header, _, *rows = block.splitlines()
        columns = split(header)
        named = [Cell(page, row, *pair) for row in rows for pair in zip(columns[1:], split(row)[1:], strict=True)]
        yield columns[0], named


def source(cell: Cell) -> float | None:
    """The figure that a cell must have; None if its column is not a metric, or no file has it."""
    parts = re.fullmatch(r"(?P<split>test|validation)? ?(?P<captions>captions, )?(?P<name>.*?),?(?: %)?", cell.column)
    assert parts
    name, is_test = parts["name"], parts["split"] != "validation"
    model = re.match(r"\| \[?`([\w-]+)`", cell.row)
    recipe = re.search(r"\(\.\./configs/(\w+)\.yaml\)", cell.row)
    if model and model[1] in MODELS:
        if name == "parameters":
            return float(MODELS[model[1]]["parameters"])
        row = RESULTS.get((model[1], "multi30k" if parts["captions"] else OWN, METRICS.get(name, "")))
        return float(row["value"]) if row and is_test else None
    if recipe and name in METRICS:
        return RECIPES[recipe[1]].get(f"{'test' if is_test else 'validation'}_{METRICS[name]}")
    return None


WITHOUT_SOURCE = {
    "docs/alignment.md": ["model"],
    "docs/bottleneck.md": ["model"],
    "docs/language_models.md": ["perplexity per word"],
    "docs/pooling.md": ["pooling"],
    "docs/pronunciation.md": ["training", "WER (PER) %"],
    "docs/pronunciation_of_text.md": ["the right reading, % of 1,453 held-out sentences"],
    "docs/recipes_and_training.md": ["validation error %"],
    "docs/sentences.md": ["in the two trainings", "test, SST-2"],
    "docs/speed.md": ["1,500 steps of the demo, seed 1, one thread"],
    "docs/summaries.md": ["validation split, 1,587 texts, beam 5"],
    "docs/translation.md": ["warnings, % of the sources"],
    "docs/which_attention.md": ["PER / WER, validation, %"],
}


def test_a_row_of_a_model_or_a_recipe_has_its_figures() -> None:
    values = [(cell, source(cell)) for page in PAGES for _, cells in tables(page) for cell in cells]
    compared = [(cell, value) for cell, value in values if value is not None]
    assert [(cell, value) for cell, value in compared if not shows(cell.text, value)] == []
    assert len(compared) > 60


def test_tables_without_a_source_are_known() -> None:
    """A new table of figures has rows of models or recipes, or is compared as a whole, or is in one of the lists."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for first, cells in tables(page):
            is_of_figures = sum(BEGINS.match(cell.text) is not None for cell in cells) > 1
            if is_of_figures and all(source(cell) is None for cell in cells) and (page, first) not in COMPARED_BELOW:
                found.setdefault(page, []).append(first)
    assert found == WITHOUT_SOURCE


COMPARED_BELOW = [
    ("docs/why_attention.md", ""),
    ("docs/claims_of_tutorials.md", "accuracy at 16 / 32 tokens"),
    ("docs/getting_started.md", "command"),
    *(("docs/languages.md", first) for first in ("", "training words", "script", "language")),
    ("docs/sentences.md", "accuracy, test, %"),
    ("docs/speed.md", "system"),
]


def test_the_tables_of_speed_export_and_faithfulness_are_written_from_their_files() -> None:
    """After a new measurement: ``python -m tests.benchmarks.page_tables``."""
    written = page_tables.tables()
    assert [page for page, text in PAGES.items() if page_tables.filled(text, written) != text] == []
    names = [place["name"] for text in PAGES.values() for place in page_tables.PLACE.finditer(text)]
    assert sorted(names) == sorted(written)
    assert written["toolkits"].count("\n| 1 |") >= 18


def test_the_table_of_translators_is_printed_from_its_file() -> None:
    rows = [split(line) for line in PAGES["docs/why_attention.md"].splitlines() if line.startswith("|")]
    assert [row for row in rows if not set(row) <= {"---"}] == why_attention.table(WHY)


def test_the_tables_of_languages_are_printed_from_their_file() -> None:
    with (ROOT / "docs" / "languages.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert language_tables.tables(rows) in PAGES["docs/languages.md"]
    assert len(rows) == 147


def test_the_table_of_recall_has_the_means_of_its_file() -> None:
    for name in recall.MODELS:
        cells = [f"{RECALL[task, name, 64, 16]:.2f} / {RECALL[task, name, 64, 32]:.2f}" for task in recall.TASKS]
        assert f"| {' | '.join([name, *cells])} |" in PAGES["docs/claims_of_tutorials.md"]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_claim_is_printed_from_its_file(name: str) -> None:
    page = (ROOT / "docs" / "claims" / f"{name}.md").read_text(encoding="utf-8")
    assert page == command.page(load_claim(name), stored(f"docs/claims/{name}.json"))


def test_the_list_of_claims_is_printed_from_their_files() -> None:
    page = (ROOT / "docs" / "claims" / "index.md").read_text(encoding="utf-8")
    assert page == command.index({name: stored(f"docs/claims/{name}.json") for name in NAMES})


# Sentences, and rows of other kinds ----------------------------------------------------------------------------------


def result(model: str, metric: str, test_set: str = OWN, column: str = "value") -> float:
    return float(RESULTS[model, test_set, metric][column])


FIXED = ("cho2014", "sutskever2014")


def bleu(name: str, texts: str) -> float:
    return WHY["models"][name]["bleu"][texts][0]


def megabytes(package: str) -> float:
    """The size of the weights of a package."""
    return sum(model["bytes"] for model in MODELS.values() if model["package"] == package) / 1e6


def widest(texts: str) -> float:
    """The longest side of the intervals of BLEU."""
    intervals = [model["bleu"][texts] for model in WHY["models"].values()]
    return max(max(mean - low, high - mean) for mean, low, high in intervals)


def limits() -> list[float]:
    """For each row of training on one thread, attnzoo's speed as a share of the limit."""
    rows = [row for row in BENCH["rows"] if (row["task"], row["threads"], row["source_length"]) == ("train", 1, 32)]
    return [row["systems"]["attnzoo"]["value"] / row["systems"]["limit"]["value"] for row in rows]


def size(model: str) -> list[float]:
    return [MODELS[model]["parameters"], MODELS[model]["bytes"] / 1e6]


CMUDICT, KOKORO, ITALIAN, SWEDISH = (f"attentional-rnn-g2p-{name}" for name in ("cmudict", "kokoro", "it", "sv"))
TO_GERMAN, FROM_GERMAN, TO_FRENCH = (f"attentional-rnn-tatoeba-{pair}" for pair in ("en-de", "de-en", "en-fr"))
TRANSFORMER, RNN = "small-transformer-multi30k-en-de", "attentional-rnn-multi30k-en-de"
STEP = GPU["rows"][0]["systems"]
# What a page says, with N for each figure: the page, the pattern, and the figures.
SAID: list[tuple[str, str, list[float]]] = [
    (
        "docs/alignment.md",
        r"Luong's global attention, Greek to English \| N ",
        [RECIPES["attentional_rnn_bible"]["test_aer"]],
    ),
    (
        "docs/alignment.md",
        r"`small_transformer_bible`, Greek to English \| N ",
        [RECIPES["small_transformer_bible"]["test_aer"]],
    ),
    (
        "docs/claims_of_tutorials.md",
        r"At width 16, the additive score has an accuracy of N in copying, .*? at most N\.",
        [
            RECALL["copy", "additive (Bahdanau)", 16, 16],
            max(RECALL["copy", name, 16, 16] for name in recall.MODELS if "(Luong)" in name),
        ],
    ),
    (
        "docs/getting_started.md",
        r"`make demo` \| validation \| [\d,]+ \| greedy \| N \| N \|",
        [RECIPES["demo"]["validation_per"], RECIPES["demo"]["validation_wer"]],
    ),
    (
        "docs/getting_started.md",
        r"`attnzoo evaluate runs/demo/best .*?` \| test \| [\d,]+ \| beam 5 \| N \| N \|",
        [DEMO["bf16"]["test"]["per"], DEMO["bf16"]["test"]["wer"]],
    ),
    ("docs/getting_started.md", r": N steps in three minutes", [RECIPES["demo"]["steps"]]),
    (
        "docs/speed.md",
        r"do N steps in bf16 and N in fp32",
        [DEMO["bf16"]["steps"], DEMO["fp32"]["steps"]],
    ),
    (
        "docs/language_models.md",
        r"`small-transformer-sotu-causal` \| [\d.]+ \| N \|",
        [result("small-transformer-sotu-causal", "word_perplexity")],
    ),
    ("docs/pronunciation.md", r"have N parameters in N MB", size(CMUDICT)),
    (
        "docs/pronunciation.md",
        r"American English, on the test split, N words",
        [result(CMUDICT, "per", column="examples")],
    ),
    ("docs/pronunciation.md", r"instead of N %", [result(KOKORO, "wer_without_stress")]),
    (
        "docs/pronunciation.md",
        r"on the test split, N words with their accents",
        [result(KOKORO, "per", column="examples")],
    ),
    ("docs/pronunciation.md", r"on the Italian test split, N words", [result(ITALIAN, "per", column="examples")]),
    ("docs/pronunciation.md", r"on the Swedish test split, N words", [result(SWEDISH, "per", column="examples")]),
    (
        "docs/pronunciation.md",
        r"seed 1: test split, beam 5 \| [\d.]+ \([\d.]+\) \| N \(N\)",
        [result(KOKORO, "wer"), result(KOKORO, "per")],
    ),
    (
        "docs/pronunciation.md",
        r"the same: validation split, greedy \| [\d.]+ \| N \|",
        [RECIPES["g2p_kokoro"]["validation_wer"]],
    ),
    (
        "docs/recipes_and_training.md",
        r"a validation error of N %",
        [100 - RECIPES["self_attentive_sick"]["validation_accuracy"]],
    ),
    (
        "docs/sentences.md",
        r"\| structured self-attention \| N " + r"\([^)]*\) \| N " * 4,
        [
            RECIPES[f"self_attentive_{name}"]["test_accuracy"]
            for name in ("sst2", "sst2_glove", "sst2_film_reviews", "sick", "tweets")
        ],
    ),
    ("docs/sentences.md", r"This model has N parameters in N MB", size("self-attentive-sst2")),
    ("docs/sentences.md", r"# test split: accuracy N %", [result("self-attentive-sst2", "accuracy")]),
    (
        "docs/sentences.md",
        r"\(the recipes\) \| N \| N \|",
        [RECIPES["self_attentive_sst2_film_reviews"][f"{split}_accuracy"] for split in ("validation", "test")],
    ),
    (
        "docs/sentences.md",
        r"two hops without a penalty \(validation N %\)",
        [RECIPES["self_attentive_sst2_glove"]["validation_accuracy"]],
    ),
    (
        "docs/several_devices.md",
        r"N of N passed in N seconds",
        [H100["tests"]["passed"], H100["tests"]["passed"] + H100["tests"]["failed"], H100["tests"]["seconds"]],
    ),
    ("docs/speed.md", r"float32, beam 5 \| N \| N \|", [result(CMUDICT, "per"), result(CMUDICT, "wer")]),
    (
        "docs/export.md",
        r"logits differ by at most N(?=e-5)",
        [1e5 * max(found["float32"]["logits"] for found in CERTIFICATES.values())],
    ),
    ("docs/speed.md", r"attnzoo reaches N to N of it", [min(limits()), max(limits())]),
    *(
        ("docs/speed.md", rf"\| {re.escape(row)} \| N \| N \|", [STEP[system]["ms"], STEP[system]["peak_MiB"]])
        for row, system in {
            "attnzoo, input feeding": "attnzoo",
            "the same as a [CUDA graph](several_devices.md#cuda-graphs)": "attnzoo, CUDA graph",
            "a loop over `nn.LSTMCell`, input feeding": "LSTMCell",
            "the matrix products alone": "products alone",
            "attnzoo, no feeding": "attnzoo, no feeding",
            "cuDNN's `nn.LSTM`, no feeding": "cuDNN, no feeding",
        }.items()
    ),
    (
        "docs/translation.md",
        r"Test split, N \(German\) and N \(French\) texts",
        [result(name, "bleu", column="examples") for name in (TO_GERMAN, TO_FRENCH)],
    ),
    (
        "docs/translation.md",
        r"On the N texts without such sentences .*? has BLEU N\.",
        [result(FROM_GERMAN, "bleu", "unseen", column) for column in ("examples", "value")],
    ),
    ("docs/translation.md", r"The models have N parameters", size(TO_GERMAN)[:1]),
    (
        "docs/translation.md",
        r"with greedy search, N and N\.",
        [RECIPES[f"small_transformer_multi30k{end}"]["validation_bleu"] for end in ("_distilled", "")],
    ),
    (
        "docs/translation.md",
        r"\| `usual_score`" + r" \| N" * 5,
        [
            stored(f"model_cards/{name}/config.json")["usual_score"]
            for name in (TRANSFORMER, RNN, TO_GERMAN, FROM_GERMAN, TO_FRENCH)
        ],
    ),
    *(
        (page, rf"`attnzoo-{name}`.*? \(N MB", [megabytes(f"attnzoo-{name}")])
        for page in ("README.md", "docs/getting_started.md")
        for name in ("models", "shelf")
    ),
    (
        "docs/why_attention.md",
        r"Bahdanau's model keeps N % of its BLEU, Cho's N %, Sutskever's N %",
        [100 * bleu(name, "30 and more") / bleu(name, "1 to 6") for name in ("bahdanau2014", *FIXED)],
    ),
    (
        "docs/why_attention.md",
        r"Bahdanau's is N points above Cho's, .*? 20 words and more N\. .*? N points below Bahdanau's, and N on",
        [bleu("bahdanau2014", texts) - bleu(name, texts) for name in FIXED for texts in ("1 to 6", "20 and more")],
    ),
    (
        "docs/why_attention.md",
        r"up to N points to each side for the shortest texts, N for the longest",
        [widest("1 to 6"), widest("30 and more")],
    ),
]


@pytest.mark.parametrize(("page", "pattern", "values"), SAID, ids=lambda part: part if isinstance(part, str) else "")
def test_what_a_page_says_is_in_a_file(page: str, pattern: str, values: list[float]) -> None:
    number = r"(-?[\d,]*\.?\d+(?: million)?)"
    (found,) = re.finditer(re.sub(r"\bN\b", lambda _: number, pattern), " ".join(PAGES[page].split()))
    assert len(found.groups()) == len(values)
    assert all(map(shows, found.groups(), values)), (found[0], values)


def test_every_commit_of_a_figure_is_in_the_history() -> None:
    """``python -m tests.benchmarks.older_figures`` prints what has changed since."""
    if not (ROOT / ".git").exists() or older_figures.git("rev-parse", "--is-shallow-repository") == ["true"]:
        pytest.skip("no history")
    commits = older_figures.commits()
    names = {name for of_commit in commits.values() for name in of_commit}
    assert {"tests/benchmarks/gpu.json", *older_figures.OF_A_RELEASE} <= names
    for commit in commits:
        older_figures.git("merge-base", "--is-ancestor", commit, "HEAD")


def test_a_change_of_words_is_no_change_of_the_code() -> None:
    """Comments, docstrings and expected figures do not count; a line of code and a key do."""
    code = 'def f():\n    """One."""\n    return 1\n'
    for same in (code.replace("One", "Two"), code + "# a comment\n", code.replace("    ", "  ")):
        assert older_figures.meaning("a.py", same) == older_figures.meaning("a.py", code)
    recipe = "seed: 1\nexpected: {test_per: 7}\n"
    assert older_figures.meaning("a.yaml", recipe.replace("7", "8")) == older_figures.meaning("a.yaml", recipe)
    for name, text, other in (
        ("a.py", code, code.replace("1", "2")),
        ("a.yaml", recipe, recipe.replace("1", "2")),
        ("a.json", "1", "2"),
        ("a.py", code, None),
    ):
        assert older_figures.meaning(name, text) != older_figures.meaning(name, other)
