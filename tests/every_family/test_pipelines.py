"""Pipelines give the results of the model and ``generate()``, in batches and one by one."""

from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tokenizers import normalizers, processors
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, pipeline
from transformers.generation import BaseStreamer
from transformers.pipelines.pt_utils import KeyDataset

import attnzoo
from attnzoo.alignment import align
from attnzoo.model_inputs import MOST_TOKENS
from attnzoo.viewer import plot_alignments
from tests.factory import TOKENIZER, letter_tokenizer, make_model

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "model_cards" / "attentional-rnn-g2p-cmudict"
WORDS = ["attention", "zoo", "caterpillar"]


@pytest.fixture(scope="module")
def pronounce() -> Any:
    """The pipeline, called often enough for search() to copy the weights; products with copies round differently."""
    made = pipeline("grapheme-to-phoneme", model=str(FOLDER), device="cpu")
    for size in (1, 2):
        made([*WORDS, *WORDS], batch_size=size)
    return made


def test_the_best_targets_are_those_of_generate(pronounce: Any) -> None:
    inputs = pronounce.tokenizer(WORDS, padding=True, return_tensors="pt")
    ids = pronounce.model.generate(**inputs, num_beams=5, num_return_sequences=3)
    texts = pronounce.tokenizer.batch_decode(ids, skip_special_tokens=True)
    found = pronounce([word.title() for word in WORDS], n_best=3, batch_size=1)
    for targets, expected in zip(found, (texts[:3], texts[3:6], texts[6:]), strict=True):
        assert {target["pronunciation"] for target in targets} == set(expected)
    once_more = pronounce("attention", n_best=3)
    for before, after in zip(found[0], once_more, strict=True):
        assert before["pronunciation"] == after["pronunciation"]
        # search() may use a copy of the weights by now, whose products round otherwise.
        torch.testing.assert_close(torch.tensor(before["score"]), torch.tensor(after["score"]))
    only = [target["pronunciation"] for (target,) in pronounce(WORDS)]
    assert only == [targets[0]["pronunciation"] for targets in found]


def test_a_score_is_the_log_probability_of_the_target(pronounce: Any) -> None:
    targets = pronounce("attention", n_best=4)
    pairs = align(
        pronounce.model, pronounce.tokenizer, ["attention"] * 4, [target["pronunciation"] for target in targets]
    )
    scores = torch.tensor([target["score"] for target in targets])
    torch.testing.assert_close(scores, torch.tensor([pair.score for pair in pairs]), rtol=1e-4, atol=1e-5)
    assert scores[0] == scores.max()
    assert scores.exp().sum() < 1


def test_batches_change_nothing(pronounce: Any) -> None:
    for one, many in zip(
        pronounce(WORDS, n_best=2, alignments=True),
        pronounce(WORDS, n_best=2, alignments=True, batch_size=3),
        strict=True,
    ):
        for a, b in zip(one, many, strict=True):
            assert a["pronunciation"] == b["pronunciation"]
            assert a["source_tokens"] == b["source_tokens"]
            assert a["target_tokens"] == b["target_tokens"]
            torch.testing.assert_close(torch.tensor(a["alignment"]), torch.tensor(b["alignment"]), rtol=1e-3, atol=1e-5)
            assert a["score"] == pytest.approx(b["score"], rel=1e-4)


def test_a_list_is_read_in_batches_of_64_or_as_the_user_says(pronounce: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    forward = type(pronounce)._forward

    def counted(pipe: Any, inputs: Any, **kwargs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        return forward(pipe, inputs, **kwargs)

    monkeypatch.setattr(type(pronounce), "_forward", counted)
    words = ["zoo", "tree"] * 33
    own = pipeline(
        "grapheme-to-phoneme", model=pronounce.model, tokenizer=pronounce.tokenizer, device="cpu", batch_size=40
    )
    for pipe, options, expected in (
        (pronounce, {}, [64, 2]),
        (pronounce, {"batch_size": 65}, [65, 1]),
        (own, {}, [40, 26]),
        (own, {"batch_size": 50}, [50, 16]),
    ):
        sizes.clear()
        assert len(pipe(words, num_beams=1, max_new_tokens=1, **options)) == 66
        assert sizes == expected
    sizes.clear()
    next(iter(pronounce((word for word in words), num_beams=1, max_new_tokens=1)))
    assert sizes == [1]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_beams": 1},
    {"num_beams": 3, "n_best": 2, "length_penalty": 2.0},
    {"num_beams": 3, "length_penalty": -1, "early_stopping": True},
    {"num_beams": 1, "min_new_tokens": 9, "repetition_penalty": 1.5},
    {"num_beams": 1, "max_new_tokens": 3},
    {"num_beams": 1, "do_sample": True, "temperature": 0.5, "top_k": 2, "n_best": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_search_itself_gives_the_scores(
    options: dict[str, Any], pronounce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They equal those of a second pass through the model, which only alignments need."""
    torch.manual_seed(0)
    expected = pronounce(WORDS, alignments=True, **options)
    monkeypatch.delattr("attnzoo.pipelines.forced_decode")
    torch.manual_seed(0)
    for targets, others in zip(pronounce(WORDS, **options), expected, strict=True):
        for target, other in zip(targets, others, strict=True):
            assert target["pronunciation"] == other["pronunciation"]
            assert target["score"] == pytest.approx(other["score"], rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"min_new_tokens": 12},
        {"num_beams": 3, "repetition_penalty": 1.5},
        {"num_beams": 3, "do_sample": True},
        {"bad_words_ids": [[40]]},
    ],
    ids=str,
)
def test_what_changes_the_scores_of_the_search_does_not_change_those_of_the_pipeline(
    options: dict[str, Any], pronounce: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    found = pronounce(WORDS, **options)
    monkeypatch.setattr(type(pronounce), "search", None)  # as in a process without the package
    torch.manual_seed(0)
    for (target,), (other,) in zip(found, pronounce(WORDS, **options), strict=True):
        assert target["pronunciation"] == other["pronunciation"]
        assert target["score"] == pytest.approx(other["score"], rel=1e-4)


def test_an_alignment_has_a_row_for_every_target_token(pronounce: Any) -> None:
    for (target,) in pronounce(WORDS, alignments=True, batch_size=2):
        weights = torch.tensor(target["alignment"])
        assert weights.shape == (len(target["target_tokens"]), len(target["source_tokens"]))
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights)), rtol=1e-4, atol=1e-4)
        assert " ".join(target["target_tokens"][:-1]) == target["pronunciation"]
        assert target["target_tokens"][-1] == target["source_tokens"][-1] == "</s>"
        figure = plot_alignments([target["alignment"]], [target["source_tokens"]], [target["target_tokens"]])
        torch.testing.assert_close(torch.tensor(figure.axes[0].images[0].get_array()), weights)


def test_options_of_generate_come_through(pronounce: Any) -> None:
    assert len(pronounce("attention", max_new_tokens=2)[0]["pronunciation"].split()) == 2
    greedy = pronounce("attention", num_beams=1)
    inputs = pronounce.tokenizer("attention", return_tensors="pt")
    ids = pronounce.model.generate(**inputs, num_beams=1)
    assert greedy[0]["pronunciation"] == pronounce.tokenizer.decode(ids[0], skip_special_tokens=True)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("  ", {}, "'  ' is an empty word"),
        ("zoo", {"errors": "ignore"}, "errors must be 'raise' or 'skip', got 'ignore'"),
        (3, {}, "a source must be a text, got 3"),
        (["zoo", None], {}, "a source must be a text, got None"),
        ("zoo", {"n_best": 0}, "n_best must be a whole number of at least 1, got 0"),
        ("zoo", {"n_best": "3"}, "n_best must be a whole number of at least 1, got '3'"),
        ("zoo", {"n_best": 1.5}, "n_best must be a whole number of at least 1, got 1.5"),
        ("zoo", {"n_best": True}, "n_best must be a whole number of at least 1, got True"),
        ("zoo", {"num_beams": "3"}, "num_beams must be a whole number of at least 1, got '3'"),
        ("zoo", {"num_beams": 0}, "num_beams must be a whole number of at least 1, got 0"),
        ("zoo", {"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        (
            "zoo",
            {"num_beams": 2, "n_best": 3},
            "needs at least 3 beams, got num_beams=2; raise num_beams or leave it out",
        ),
        ("zoo", {"num_beams": 2, "n_best": 3, "do_sample": True}, "n_best=3 needs at least 3 beams, got num_beams=2"),
        (
            "zoo",
            {"generation_config": GenerationConfig(num_beams=1), "n_best": 2},
            "n_best=2 needs at least 2 beams, got num_beams=1",
        ),
        ("zoo", {"generation_config": {"num_beams": 1}}, "must be a GenerationConfig, got {'num_beams': 1}"),
        (
            "zoo",
            {"generation_config": GenerationConfig(num_beams=2, num_return_sequences=2)},
            "num_return_sequences=2: n_best is",
        ),
        ("zoo", {"num_return_sequences": 3}, "does not take num_return_sequences=3: n_best is how many targets"),
        ("zoo", {"return_dict_in_generate": True}, "does not take return_dict_in_generate=True: .*model.generate()"),
        ("zoo", {"output_scores": True}, "does not take output_scores=True: .*model.generate()"),
        ("zoo", {"output_attentions": True}, "does not take output_attentions=True: .*alignments=True"),
        ("zoo", {"stop_strings": ["AH"]}, "does not take stop_strings=.*: a target stops at its end token"),
        ("zoo", {"stopping_criteria": [len]}, "does not take stopping_criteria=.*: a target stops at its end token"),
        ("zoo", {"decoder_start_token_id": 9}, "decoder_start_token_id=9 is not the model's .1."),
        ("zoo", {"cache_implementation": "paged"}, "cache_implementation='paged' is for models without a source"),
        ("zoo", {"num_beam": 3}, "does not know num_beam=3; it takes n_best, alignments"),
        ("zoo", {"labels": [3]}, "does not know labels=.3."),
        ("zoo", {"alignments": "no"}, "alignments must be True or False, got 'no'"),
    ],
)
def test_what_cannot_be_read_is_refused(pronounce: Any, source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pronounce(source, **options)


def test_what_cannot_be_done_is_refused_where_the_pipeline_is_made(pronounce: Any) -> None:
    parts = {"tokenizer": pronounce.tokenizer, "device": "cpu"}
    with pytest.raises(ValueError, match="does not take num_return_sequences=3"):
        pipeline("grapheme-to-phoneme", model=pronounce.model, num_return_sequences=3, **parts)
    with pytest.raises(ValueError, match="machine-translation needs a model for conditional generation, got SelfAtt"):
        pipeline("machine-translation", model=make_model("self-attentive"), **parts)
    with pytest.raises(ValueError, match="needs a model for conditional generation, got SmallTransformerForCausalLM"):
        pipeline("machine-translation", model=make_model("transformer-causal"), **parts)


def test_words_come_in_every_way(pronounce: Any) -> None:
    words = sorted(WORDS, key=len, reverse=True)  # the order of a list's batches, so that all have the same batches
    expected = pronounce(words, batch_size=2)
    dataset = Dataset.from_dict({"word": words})
    assert pronounce(tuple(words), batch_size=2) == expected
    assert pronounce(dataset["word"], batch_size=2) == expected
    assert pronounce(dataset.to_pandas()["word"], batch_size=2) == expected  # type: ignore[union-attr,index]
    assert list(pronounce(KeyDataset(dataset, "word"), batch_size=2)) == expected
    assert list(pronounce((word for word in words), batch_size=2)) == expected
    assert pronounce(["Caterpillar ", "attention\n", " ZOO"], batch_size=2) == expected  # lines of a file
    assert pronounce([]) == pronounce(()) == []


MIXED = ["rock-n-roll", "attention", "Café", None, "zoo", "42", ""]  # in the order of a list's batches


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_a_word_that_cannot_be_read_does_not_lose_the_others(batch_size: int, pronounce: Any) -> None:
    with pytest.raises(
        ValueError, match=r"'rock-n-roll' has .*: '-'; .* \(errors='skip' skips such sources and goes on"
    ):
        pronounce(MIXED, batch_size=batch_size)
    options: dict[str, Any] = {"n_best": 2, "alignments": True, "errors": "skip", "batch_size": batch_size}
    found = pronounce(MIXED, **options)
    assert list(pronounce((word for word in MIXED), **options)) == found
    refused = {word: targets[0] for word, targets in zip(MIXED, found, strict=True) if "error" in targets[0]}
    errors = [target.pop("error") for target in refused.values()]
    assert list(refused) == ["rock-n-roll", None, "42", ""]
    for error, start in zip(
        errors, ("'rock-n-roll' has", "a source must", "'42' has", "'' is an empty word"), strict=True
    ):
        assert error.startswith(start)
    assert all(target == {"pronunciation": None, "score": None} for target in refused.values())
    for number, word in ((1, "attention"), (2, "cafe"), (4, "zoo")):
        for target, other in zip(found[number], pronounce(word, n_best=2), strict=True):
            assert target["pronunciation"] == other["pronunciation"]
            assert target["score"] == pytest.approx(other["score"], rel=1e-4)
    assert pronounce("42", errors="skip")[0]["pronunciation"] is None


def test_the_first_source_that_cannot_be_read_is_named(pronounce: Any) -> None:
    with pytest.raises(ValueError, match=r"^'a1' has .*: '1'; .* \(errors='skip' skips such sources and goes on\)$"):
        pronounce(["zoo", "a1", "caterpillar2"], batch_size=1)


def test_texts_that_no_model_could_read_are_skipped_too(translate: Any) -> None:
    model = make_model("transformer-encoder-decoder", position_embedding="learned", max_position_embeddings=6)
    model.generation_config.max_new_tokens = 5
    short = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")
    found = short(["abc", "abcdefgh", "d"], errors="skip")
    assert "9 tokens, and the model has 6 positions" in found[1][0]["error"]
    assert all(targets[0]["translation_text"] is not None for targets in (found[0], found[2]))
    found = translate(["abc", "\ud800"], errors="skip")
    assert "surrogates not allowed" in found[1][0]["error"]
    assert found[0] == translate(["abc"])[0]
    bare = letter_tokenizer()
    bare.backend_tokenizer.normalizer = normalizers.Replace("é", "")
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing("$A", "$A $B:1", [])
    without_end = pipeline("machine-translation", model=translate.model, tokenizer=bare, device="cpu")
    found = without_end(["abc", "é"], errors="skip")
    assert found[1][0]["error"] == "the tokenizer has no token for 'é'"
    assert found[0] == without_end(["abc"])[0]


def test_a_long_text_is_cut_by_the_summary_alone_and_both_warn() -> None:
    model = make_model("transformer-encoder-decoder", position_embedding="learned", max_position_embeddings=9, seed=1)
    model.generation_config.max_new_tokens = 5
    tokenizer = deepcopy(TOKENIZER)
    tokenizer.model_max_length = 4
    summarize, translate = (
        pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
        for task in ("text-summarization", "machine-translation")
    )
    with pytest.warns(UserWarning, match=r"'abcdefghab' is longer than 4 tokens, .* only these are read") as warned:
        cut, whole = summarize(["abcdefghab", "abc"])
    assert len(warned) == 1
    assert cut == whole
    with pytest.warns(UserWarning, match=r"'abcde' has 6 tokens, more than the 4 of .* model_max_length"):
        translate("abcde")


def test_a_source_without_end_is_refused_at_once_and_shortened(translate: Any) -> None:
    many, short = translate(["a" * (MOST_TOKENS + 1), "abc"], errors="skip")
    assert f"{'a' * 80!r}... has {MOST_TOKENS + 2:,} tokens, and at most {MOST_TOKENS:,} are read" in many[0]["error"]
    assert len(many[0]["error"]) < 200
    assert short == translate("abc")
    with pytest.raises(ValueError, match=rf"target 0, 'a+'\.\.\., has .* tokens, and at most {MOST_TOKENS:,} are read"):
        align(translate.model, TOKENIZER, ["a"], ["a" * (MOST_TOKENS + 1)])


def test_stop_strings_of_the_generation_config_are_refused_with_what_to_do() -> None:
    model = make_model("transformer-encoder-decoder")
    model.generation_config.stop_strings = ["a"]
    with pytest.raises(
        ValueError, match=r"stop_strings=\['a'\], which .* does not take: .*; remove it from generation_"
    ):
        pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")
    assert attnzoo.view(model, TOKENIZER, "abc").maps["cross"].target.names


def test_the_best_target_comes_first(pronounce: Any) -> None:
    """The beam search has a length penalty, so its own order differs in a third of the lists."""
    words = ["alignment", "avalanche", "electricity", "castle", "bureau", "caterpillar", "colonel", "dinosaur", "queue"]
    for targets in pronounce(words, n_best=5, batch_size=9):
        scores = [target["score"] for target in targets]
        assert scores == sorted(scores, reverse=True)


@pytest.fixture(scope="module")
def translate() -> Any:
    """A pipeline with a Transformer, which has several layers and heads; it writes the words backwards."""
    model = make_model("transformer-encoder-decoder")
    model.generation_config.max_new_tokens = 8
    return pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")


def test_a_transformer_translates_with_scores_and_alignments(translate: Any) -> None:
    sources = ["abc", "d", "efabcdefgh"]
    batched = translate(sources, n_best=3, num_beams=4, alignments=True, batch_size=2)
    for source, targets in zip(sources, batched, strict=True):
        inputs = TOKENIZER(source, return_tensors="pt", return_token_type_ids=False)
        ids = translate.model.generate(**inputs, num_beams=4, num_return_sequences=3)
        texts = TOKENIZER.batch_decode(ids, skip_special_tokens=True)
        assert [target["translation_text"] for target in targets] == texts
        for target, row in zip(targets, ids, strict=True):
            ends = (row[1:] == TOKENIZER.eos_token_id).nonzero().flatten().tolist()
            row = row[: ends[0] + 2] if ends else row  # without what fills up the batch
            with torch.no_grad():
                outputs = translate.model(**inputs, decoder_input_ids=row[None, :-1], output_attentions=True)
            chosen = outputs.logits[0].log_softmax(dim=-1).gather(1, row[1:, None])
            assert target["score"] == pytest.approx(chosen.sum().item(), rel=1e-4)
            mean_of_heads = outputs.cross_attentions[-1][0].mean(dim=0)
            torch.testing.assert_close(torch.tensor(target["alignment"]), mean_of_heads, rtol=1e-4, atol=1e-5)
            assert target["source_tokens"] == [*source, "</s>"]
            assert target["target_tokens"] == TOKENIZER.convert_ids_to_tokens(row[1:])


def test_translation_takes_texts_as_they_are(pronounce: Any) -> None:
    translate = pipeline("machine-translation", model=pronounce.model, tokenizer=pronounce.tokenizer, device="cpu")
    assert translate("zoo")[0]["translation_text"] == pronounce("zoo")[0]["pronunciation"]


@pytest.mark.parametrize("task", ["grapheme-to-phoneme", "machine-translation"])
def test_samples_are_those_of_generate(task: str, pronounce: Any, translate: Any) -> None:
    pipe, source = (pronounce, "phlinkerton") if task == "grapheme-to-phoneme" else (translate, "abc")
    inputs = pipe.tokenizer(source, return_tensors="pt", return_token_type_ids=False)
    sampling = {"do_sample": True, "num_beams": 1, "top_k": 0}
    torch.manual_seed(0)
    ids = pipe.model.generate(**inputs, **sampling, num_return_sequences=4)
    torch.manual_seed(0)
    found = [target[pipe.target_key] for target in pipe(source, n_best=4, **sampling)]
    assert sorted(found) == sorted(pipe.tokenizer.batch_decode(ids, skip_special_tokens=True))
    assert len(set(found)) > 1


@pytest.mark.parametrize("where", ["made", "called"])
@pytest.mark.parametrize("as_config", [False, True], ids=["options", "config"])
def test_a_generation_config_is_heeded_wherever_it_is_given(where: str, as_config: bool, translate: Any) -> None:
    fields = {"num_beams": 2, "max_new_tokens": 3}
    given: dict[str, Any] = {"generation_config": GenerationConfig(**fields)} if as_config else fields
    made, called = (given, {}) if where == "made" else ({}, given)
    parts = {"model": translate.model, "tokenizer": TOKENIZER, "device": "cpu"}
    pipe = pipeline("machine-translation", **parts, **made)
    inputs = TOKENIZER("efabc", return_tensors="pt", return_token_type_ids=False)
    ids = translate.model.generate(**inputs, **fields, num_return_sequences=2)
    texts = [target["translation_text"] for target in pipe("efabc", n_best=2, **called)]
    assert texts == TOKENIZER.batch_decode(ids, skip_special_tokens=True)
    with pytest.raises(ValueError, match="n_best=3 needs at least 3 beams, got num_beams=2"):
        pipe("efabc", n_best=3, **called)


class Faulty(BaseStreamer, LogitsProcessor):
    """Code of a user that raises at its nth call: a streamer, a logits processor, or a prefix function."""

    def __init__(self, nth: int, error: type[Exception]) -> None:
        self.nth, self.error, self.calls = nth, error, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls == self.nth:
            raise self.error("the user's own")
        return args[1] if args[1].ndim == 2 else [7]

    def put(self, value: Any) -> None:
        self(None, torch.empty(0))

    def end(self) -> None: ...


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError])
@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("what", ["logits_processor", "prefix_allowed_tokens_fn", "streamer"])
@pytest.mark.parametrize("kind", ["attentional-rnn", "transformer-encoder-decoder"])
def test_an_error_of_the_users_own_code_is_raised(kind: str, what: str, nth: int, error: type[Exception]) -> None:
    """Nothing is searched a second time, which would hide the error: a counter does not raise again."""
    model = make_model(kind)
    pipe = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu", max_new_tokens=6)
    for beams in (1,) if what == "streamer" else (1, 2):
        code = Faulty(nth, error)
        given: Any = LogitsProcessorList([code]) if what == "logits_processor" else code
        with pytest.raises(error, match="the user's own"):
            pipe("efabc", num_beams=beams, suppress_tokens=[TOKENIZER.eos_token_id], **{what: given})
        assert code.calls == nth


def test_a_stop_string_ends_the_text_of_transformers_own_pipeline() -> None:
    tokenizer = letter_tokenizer()  # the pipeline sets its side of padding
    pipe = pipeline("text-generation", model=make_model("transformer-causal"), tokenizer=tokenizer, device="cpu")
    letter = {(tokenizer.convert_tokens_to_ids("b"),): 1e3}
    for options in ({}, {"custom_generate": attnzoo.search}, {"num_beams": 2}):
        (found,) = pipe(
            "efa", stop_strings=["b"], tokenizer=tokenizer, sequence_bias=letter, max_new_tokens=5, **options
        )
        assert found["generated_text"].endswith("b")
        assert found["generated_text"].count("b") == 1


def test_what_is_told_at_a_call_adds_to_what_was_told_before(translate: Any) -> None:
    searches = []

    def search(*args: Any, **kwargs: Any) -> Any:
        searches.append(kwargs["generation_config"].num_beams)
        return attnzoo.search(*args, **kwargs)

    parts = {"model": translate.model, "tokenizer": TOKENIZER, "device": "cpu"}
    pipe = pipeline("machine-translation", custom_generate=search, n_best=2, **parts)
    assert [len(pipe("abc", num_beams=3)), len(pipe("abc", n_best=4))] == [2, 4]
    assert searches == [3, 4]


def test_search_finds_the_same_time_after_time(translate: Any) -> None:
    """A pipeline that requests attentions of a Transformer leaves hooks on it, which search() may ignore."""
    expected = translate("efabc", num_beams=4, n_best=4)
    for _ in range(2):
        found = translate("efabc", num_beams=4, n_best=4, custom_generate=attnzoo.search)
        assert [target["translation_text"] for target in found] == [target["translation_text"] for target in expected]


END = TOKENIZER.eos_token_id


@pytest.mark.parametrize("where", ["model", "made", "called", "config"])
@pytest.mark.parametrize("extra", [[], [END], "letters"], ids=["none", "one", "several"])
def test_a_target_ends_at_the_first_end_in_force(where: str, extra: Any, translate: Any) -> None:
    """Samples have unequal lengths; some letters end a target, too, and some may come after another end."""
    ends = [END, *range(5, 15)] if extra == "letters" else (extra or None)
    model = make_model("transformer-encoder-decoder", std=0.2)
    model.generation_config.max_new_tokens = 8
    model.generation_config.eos_token_id = ends if where == "model" else 30  # a letter
    options = {"eos_token_id": ends, "do_sample": True, "num_beams": 1}
    made: dict[str, Any] = options if where == "made" else {}
    called = {"called": options, "config": {"generation_config": GenerationConfig(**options)}}.get(where, {})
    if where == "model":
        called = {"do_sample": True, "num_beams": 1}
    pipe = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu", **made)
    inputs = TOKENIZER("efabc", return_tensors="pt", return_token_type_ids=False)
    if where == "config" and ends is None:
        ends = [30]  # a config that says nothing leaves the model's
    torch.manual_seed(0)
    ids = model.generate(**inputs, **({**made, **called} or {}), num_return_sequences=20)
    torch.manual_seed(0)
    found = pipe("efabc", n_best=20, alignments=True, **called)
    expected, lengths = [], set()
    for row in ids[:, 1:]:
        first = next((place for place, token in enumerate(row.tolist()) if token in (ends or [])), len(row) - 1)
        row = row[: first + 1]
        lengths.add(len(row))
        with torch.no_grad():
            log_probabilities = model(**inputs, labels=row[None]).logits[0].log_softmax(dim=-1)
        score = log_probabilities.gather(1, row[:, None]).sum().item()
        text = TOKENIZER.decode(row, skip_special_tokens=True)
        expected.append((TOKENIZER.convert_ids_to_tokens(row), text, pytest.approx(score, rel=1e-4)))
    results = [(target["target_tokens"], target["translation_text"], target["score"]) for target in found]
    for result, other in zip(sorted(results), sorted(expected, key=lambda entry: entry[:2]), strict=True):
        assert result == other
    assert len(lengths) > 1 or ends is None


def test_what_a_translator_does_not_know_is_named(translate: Any) -> None:
    with pytest.warns(UserWarning, match=r"'aÄb\?' has parts that this model does not know: 'Ä', '\?'"):
        translate("aÄb?")


def test_two_start_tokens_of_one_model_are_refused() -> None:
    model = make_model("attentional-rnn")
    start = model.config.decoder_start_token_id
    model.generation_config.decoder_start_token_id = start + 1
    with pytest.raises(ValueError, match=f"{start + 1} in generation_config.json and {start} in config.json"):
        pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")


def test_an_empty_target_gives_a_warning() -> None:
    model = make_model("attentional-rnn")
    end = model.config.eos_token_id
    translate = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")
    with pytest.warns(UserWarning, match="the model predicts an empty target for 'abc'"):
        assert translate("abc", forced_eos_token_id=end, max_new_tokens=1)[0]["translation_text"] == ""


@pytest.mark.parametrize("kind", ["attentional-rnn", "transformer-encoder-decoder"])
def test_a_source_unlike_those_of_the_training_gives_a_warning(kind: str) -> None:
    """If the config has the usual log p per token and length. Samples give no warning: they may be improbable by
    chance.
    """
    model = make_model(kind, std=0.3)
    model.generation_config.update(max_new_tokens=4, num_beams=2)
    translate = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device="cpu")
    (best,) = translate("abc")
    length = int((translate.forward(translate.preprocess(["abc"]))["labels"] != -100).sum())
    for usual, is_warned in ((best["score"] / length + 1e-3, True), (best["score"] / length - 1e-3, False)):
        model.config.usual_score = usual
        for sources in ("abc", ["", "abc"], ["abc", ""]):
            with pytest.warns(match="'abc' is unlike what") if is_warned else nullcontext():
                translate(sources, errors="skip")
    model.config.usual_score = 0.0
    translate("abc", do_sample=True, num_beams=1)
    model.config.usual_score, tokens = None, len(TOKENIZER("abc")["input_ids"])
    for longest in (tokens - 1, tokens):
        model.config.longest_source = longest
        text = f"has {tokens} tokens, and the model learned from sources of at most {longest}"
        with pytest.warns(match=text) if longest < tokens else nullcontext():
            translate("abc")
