"""Lin's pooling on any encoder: the equation, training, files, and the module of sentence-transformers."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.studies.pooling import interval
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    T5Config,
    T5EncoderModel,
    T5Model,
    default_data_collator,
    pipeline,
)

import attnzoo
from attnzoo import PooledEncoderConfig, PooledEncoderModel, SelfAttentivePooling, with_self_attentive_pooling
from attnzoo.hub.model_code import code_files
from attnzoo.pooling import PooledEncoderForSequenceClassification, pooled
from tests.factory import ONE_STEP, TOKENIZER, make_model, make_trainer, refused, tiny_model, weights
from tests.hub.client import run_python
from tests.package.snippets import run_alone
from tests.reference.self_attentive import annotate, embed, penalty
from tests.viewer.tiny_hugging_face import tiny

IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [11, 0, 0, 0, 0]])
MASK = (IDS != 0).long()
LABELS = torch.tensor([1, 0, 2])


def encoder_of(name: str) -> Any:
    torch.manual_seed(0)
    if name == "bert":
        sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 9}
        return BertModel(BertConfig(vocab_size=13, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes))
    if name == "ours":
        return tiny_model("bidirectional-post-learned", dtype=torch.float32).model
    if name == "lin":
        return tiny_model("base-single", dtype=torch.float32)
    return tiny(name)


def classifier(name: str = "bert", **fields: Any) -> PooledEncoderForSequenceClassification:
    fields = {"num_hops": 3, "num_labels": 3, "attention_hidden_size": 5, "classifier_size": 7} | fields
    return with_self_attentive_pooling(encoder_of(name), **{"classifier_dropout": 0.0} | fields)


@pytest.mark.parametrize("name", ["bert", "distilbert", "albert", "gpt2", "ours"])
def test_logits_and_loss_are_those_of_the_paper(name: str) -> None:
    model = classifier(name, penalty_coefficient=0.7).double().eval()
    outputs = model(IDS, attention_mask=MASK, labels=LABELS, output_attentions=True)
    states = model.encoder(IDS, attention_mask=MASK)[0]
    own, logits, penalties = model.attention, [], []
    for row, length in enumerate(MASK.sum(dim=1).tolist()):
        tokens = list(states[row, :length])
        annotation = annotate(tokens, own.key_proj.weight, own.hops)
        matrix = torch.stack(embed(annotation, tokens, states.shape[-1]))
        hidden = torch.relu(model.hidden_proj.weight @ matrix.flatten() + model.hidden_proj.bias)
        logits.append(model.classifier.weight @ hidden + model.classifier.bias)
        penalties.append(penalty(annotation))
        expected = torch.tensor([[float(weight) for weight in hop] for hop in annotation], dtype=torch.float64)
        torch.testing.assert_close(outputs.attentions[0][row, 0, :, :length].detach(), expected)
    torch.testing.assert_close(outputs.logits, torch.stack(logits), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(outputs.penalty, torch.stack(penalties), rtol=1e-10, atol=1e-10)
    task = nn.functional.cross_entropy(torch.stack(logits), LABELS)
    torch.testing.assert_close(outputs.loss, task + 0.7 * torch.stack(penalties).mean(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("pooling", ["self_attentive", "mean", "max", "cls"])
def test_padding_has_no_influence_and_every_weight_a_gradient(pooling: str) -> None:
    model = classifier(pooling=pooling, penalty_coefficient=0.1)
    report = attnzoo.check(model)
    assert report.passed, report
    model(IDS, attention_mask=MASK, labels=LABELS).loss.backward()
    unused = {name for name, part in model.named_parameters() if part.grad is None}
    assert all("encoder.pooler" in name for name in unused), unused


@pytest.mark.parametrize("name", ["bert", "ours"])
def test_an_additive_mask_is_the_mask_that_it_means(name: str) -> None:
    model = classifier(name).eval()
    additive = torch.zeros(MASK.shape).masked_fill(MASK == 0, -torch.inf)
    assert torch.equal(model(IDS, attention_mask=additive).logits, model(IDS, attention_mask=MASK).logits)


def test_plain_pooling_is_what_its_name_says() -> None:
    states = torch.arange(24.0).view(2, 4, 3) * torch.tensor([1.0, -1.0, 1.0])
    mask = torch.tensor([[False, True, True, False], [False, False, False, False]])
    real = states[0, 1:3]
    for pooling, expected in (("mean", real.mean(0)), ("max", real.amax(0)), ("cls", real[0])):
        assert torch.equal(pooled(states, mask, pooling), torch.stack([expected, torch.zeros(3)]))


def rows() -> list[dict[str, Any]]:
    return [
        {"input_ids": IDS[i, :n], "attention_mask": MASK[i, :n], "labels": LABELS[i]} for i, n in enumerate((5, 3, 1))
    ]


def collate(batch: list[dict[str, Any]]) -> dict[str, Tensor]:
    padded = {
        name: nn.utils.rnn.pad_sequence([row[name] for row in batch], batch_first=True)
        for name in ("input_ids", "attention_mask")
    }
    return padded | {"labels": torch.stack([row["labels"] for row in batch])}


def trainer_of(model: Any, folder: Path, **settings: Any) -> Any:
    parts = {"train_dataset": rows(), "eval_dataset": rows(), "data_collator": collate, "processing_class": None}
    return make_trainer(model, folder, parts, per_device_train_batch_size=3, remove_unused_columns=False, **settings)


def test_trainer_learns_with_the_penalty(tmp_path: Path) -> None:
    model = classifier(penalty_coefficient=0.05)
    before = model.encoder.embeddings.word_embeddings.weight.clone()
    trainer_of(model, tmp_path, max_steps=60, learning_rate=1e-2).train()
    outputs = model.eval()(IDS, attention_mask=MASK, labels=LABELS)
    assert outputs.logits.argmax(dim=1).tolist() == LABELS.tolist()
    assert not torch.equal(model.encoder.embeddings.word_embeddings.weight, before)  # the encoder itself is trained


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    """The penalty is also divided by the number of labels of all batches."""
    stepped = []
    for size, steps in ((3, 1), (1, 3)):
        model = classifier(penalty_coefficient=0.5)
        settings = ONE_STEP | {"learning_rate": 0.1, "gradient_accumulation_steps": steps}
        trainer = trainer_of(model, tmp_path, **settings)
        trainer.args.per_device_train_batch_size = size
        trainer.train()
        stepped.append(weights(model))
    for name, part in stepped[0].items():
        torch.testing.assert_close(part, stepped[1][name], rtol=1e-4, atol=1e-6, msg=name)


def test_a_trainer_leaves_the_segments_of_pairs_in_a_batch(tmp_path: Path) -> None:
    model = classifier().eval()
    row = {"input_ids": IDS[0], "token_type_ids": torch.ones_like(IDS[0]), "labels": LABELS[0]}
    parts = {"train_dataset": [row], "data_collator": default_data_collator, "processing_class": None}
    (batch,) = make_trainer(model, tmp_path, parts).get_train_dataloader()
    assert not torch.equal(model(**batch).logits, model(IDS[:1]).logits)


def test_a_trainer_that_withholds_the_labels_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"penalty_coefficient=0\.5"):
        trainer_of(classifier(penalty_coefficient=0.5), tmp_path, label_smoothing_factor=0.1).train()


def test_a_saved_model_is_loaded_from_its_folder_alone(tmp_path: Path) -> None:
    config = T5Config(vocab_size=13, d_model=8, d_kv=4, d_ff=9, num_layers=1, num_heads=2)
    models = {name: classifier(name) for name in ("bert", "ours")}
    models["t5-encoder"] = with_self_attentive_pooling(T5EncoderModel(config).eval(), 2)
    for name, model in models.items():
        folder = tmp_path / name
        model.eval().save_pretrained(folder)
        torch.save(model(IDS, attention_mask=MASK).logits, folder / "logits.pt")
        program = f"""
import torch
import attnzoo
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained({str(folder)!r}).eval()
ids = torch.tensor({IDS.tolist()})
expected = torch.load({str(folder / "logits.pt")!r})
assert torch.equal(model(ids, attention_mask=(ids != 0).long()).logits, expected)
"""
        run_alone(program, folder)


@pytest.mark.parametrize("name", ["bert", "albert", "gpt2", "ours", "lin"])
def test_its_folder_is_loaded_with_and_without_the_classifier(name: str, tmp_path: Path) -> None:
    whole = classifier(name).eval()
    whole.save_pretrained(tmp_path)
    for auto in (AutoModel, AutoModelForSequenceClassification):
        states = auto.from_pretrained(tmp_path).state_dict()
        assert all(torch.equal(states[key], part) for key, part in whole.state_dict().items() if key in states)
        assert states.keys() >= {"attention.hops", *(f"encoder.{key}" for key in whole.encoder.state_dict())}
    outputs = AutoModel.from_pretrained(tmp_path).eval()(IDS, attention_mask=MASK, output_attentions=True)
    torch.testing.assert_close(outputs.last_hidden_state, whole.encoder(IDS, attention_mask=MASK)[0])
    sentence_matrix = outputs.attentions[0][:, 0] @ outputs.last_hidden_state
    torch.testing.assert_close(outputs.pooler_output, sentence_matrix.flatten(1))
    logits = whole.classifier(whole.hidden_proj(outputs.pooler_output).relu())
    torch.testing.assert_close(logits, whole(IDS, attention_mask=MASK).logits)


def test_the_features_of_a_pooled_encoder_are_those_of_its_encoder(tmp_path: Path) -> None:
    encoder = make_model("transformer-masked").model
    with_self_attentive_pooling(encoder, num_hops=2).save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    found = pipeline("feature-extraction", str(tmp_path))("abc", return_tensors=True)
    ids = TOKENIZER("abc", return_tensors="pt").input_ids
    torch.testing.assert_close(found, encoder(ids).last_hidden_state)


@pytest.mark.parametrize("name", ["bert", "albert", "distilbert", "gpt2", "ours"])
def test_every_parameter_is_trained(name: str, tmp_path: Path) -> None:
    """The encoder's own pooler would have no gradient, which is an error in DistributedDataParallel."""
    model = classifier(name)
    model.save_pretrained(tmp_path)
    for trained in (model, AutoModelForSequenceClassification.from_pretrained(tmp_path)):
        trained(IDS, attention_mask=MASK, labels=LABELS).loss.backward()
        assert [part for part, tensor in trained.named_parameters() if tensor.grad is None] == []


def test_the_pooler_of_an_older_folder_is_left_out(tmp_path: Path) -> None:
    model = classifier("bert").eval()
    width = model.config.hidden_size
    states = model.state_dict() | {
        "encoder.pooler.dense.weight": torch.ones(width, width),
        "encoder.pooler.dense.bias": torch.ones(width),
    }
    model.save_pretrained(tmp_path, state_dict=states)
    loaded, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    torch.testing.assert_close(loaded(IDS, attention_mask=MASK).logits, model(IDS, attention_mask=MASK).logits)


@pytest.mark.parametrize("name", ["bert", "albert", "distilbert", "ours"])
def test_the_folder_of_an_encoder_alone_is_an_error_that_says_how_to_pool_it(name: str, tmp_path: Path) -> None:
    encoder = encoder_of(name)
    encoder.save_pretrained(tmp_path)
    for loaded in (PooledEncoderForSequenceClassification, PooledEncoderModel, PooledEncoderConfig):
        with refused(ValueError, repr(encoder.config.model_type), "with_self_attentive_pooling(encoder)"):
            loaded.from_pretrained(tmp_path)


def test_the_attention_of_the_encoder_is_chosen_and_its_outputs_requested_by_the_config(tmp_path: Path) -> None:
    classifier().save_pretrained(tmp_path)
    for backend in ("sdpa", "eager"):
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path, attn_implementation=backend)
        assert model.encoder.config._attn_implementation == backend
    model.config.output_attentions = model.config.output_hidden_states = True
    outputs = model(IDS, attention_mask=MASK)
    assert outputs.attentions[0].shape == (3, 1, 3, 5)
    assert len(outputs.hidden_states) == 2


def test_the_vocabulary_of_the_encoder_grows(tmp_path: Path) -> None:
    model = classifier().eval()
    before = model(IDS, attention_mask=MASK).logits
    model.resize_token_embeddings(20, mean_resizing=False)
    assert model.config.vocab_size == model.config.encoder.vocab_size == 20
    torch.testing.assert_close(model(IDS, attention_mask=MASK).logits, before)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(IDS, attention_mask=MASK).logits, before)


def test_its_code_travels_and_loads_without_the_package(tmp_path: Path) -> None:
    model = classifier().eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# A classifier\n")
    names = {path.name for path in code_files(tmp_path)}
    assert {"pooling.py", "configuration_pooled_encoder.py", "attention.py", "loss.py"} <= names
    from attnzoo.hub.model_code import add_code

    add_code(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["auto_map"] == {
        "AutoConfig": "configuration_pooled_encoder.PooledEncoderConfig",
        "AutoModel": "pooling.PooledEncoderModel",
        "AutoModelForSequenceClassification": "pooling.PooledEncoderForSequenceClassification",
    }
    torch.save(model(IDS, attention_mask=MASK).logits, tmp_path / "logits.pt")
    program = f"""
import torch
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained({str(tmp_path)!r}, trust_remote_code=True).eval()
ids = torch.tensor({IDS.tolist()})
expected = torch.load({str(tmp_path / "logits.pt")!r})
assert torch.equal(model(ids, attention_mask=(ids != 0).long()).logits, expected)
"""
    environment = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "PATH": ""}
    ended = run_python("-c", program, environment=environment, without_attnzoo=True)
    assert ended.returncode == 0, ended.stderr


def test_the_encoder_is_the_one_that_was_given() -> None:
    encoder = encoder_of("bert")
    before = {name: part.clone() for name, part in encoder.state_dict().items()}
    model = with_self_attentive_pooling(encoder, num_hops=2)
    assert model.encoder is encoder
    assert all(torch.equal(part, before[name]) for name, part in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: with_self_attentive_pooling(nn.Linear(2, 2)), TypeError, "got Linear"),
        (lambda: classifier(number_of_hops=2), TypeError, "no field 'number_of_hops'"),
        (lambda: classifier(num_hops=0), Exception, "num_hops must be at least 1"),
        (lambda: classifier(penalty_coefficient=-1.0), Exception, "penalty_coefficient must be between 0 and"),
        (lambda: classifier(num_labels=1)(IDS, labels=torch.tensor([1.0, math.nan, 0.0])), ValueError, "not finite"),
        (lambda: with_self_attentive_pooling(T5Model(T5Config(vocab_size=9, d_model=4, d_kv=2, d_ff=4))), Exception,
         "with a decoder"),
    ],
)  # fmt: skip
def test_what_cannot_be_pooled_is_an_error(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


# sentence-transformers ------------------------------------------------------------------------------------------------


class StandIn(nn.Sequential):
    """Stands in for SentenceTransformer, in which features pass through all modules."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        for module in self:
            features = module(features)
        return features


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.auto_model = encoder_of("bert")

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        states = self.auto_model(features["input_ids"], attention_mask=features["attention_mask"])[0]
        return features | {"token_embeddings": states}


def test_the_module_follows_the_protocol_of_sentence_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = SelfAttentivePooling(12, num_hops=3)
    sentences = StandIn(Transformer(), module).eval()
    features = {"input_ids": IDS, "attention_mask": MASK}
    made = sentences(dict(features))
    assert made["sentence_embedding"].shape == (3, module.get_sentence_embedding_dimension())
    assert made["penalty"].shape == (3,)
    alone = sentences({"input_ids": IDS[1:2, :3], "attention_mask": MASK[1:2, :3]})["sentence_embedding"]
    torch.testing.assert_close(alone[0], made["sentence_embedding"][1])
    module.save(str(tmp_path / "1_Pooling"))
    loaded = SelfAttentivePooling.load(str(tmp_path), subfolder="1_Pooling")
    assert loaded.get_config_dict() == module.get_config_dict()
    again = StandIn(sentences[0], loaded)(dict(features))["sentence_embedding"]
    assert torch.equal(again, made["sentence_embedding"])
    with pytest.raises(ValueError, match="pickle"):
        module.save(str(tmp_path), safe_serialization=False)


def test_auto_classes_know_the_model() -> None:
    config = classifier().config
    assert isinstance(AutoModelForSequenceClassification.from_config(config), PooledEncoderForSequenceClassification)
    assert isinstance(AutoModel.from_config(config.encoder), BertModel)


def test_the_interval_of_the_study_holds_the_mean() -> None:
    """For the mean of N differences of standard deviation s the interval is near 1.96 s / sqrt(N) to each side."""
    differences = torch.randn(2000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    low, high = interval(differences)
    half = 100 * 1.96 * float(differences.std()) / 2000**0.5
    assert abs((high - low) / 2 - half) < 0.1 * half
    assert low < 100 * float(differences.mean()) < high
