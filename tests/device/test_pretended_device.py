"""Every family on a pretended device: the results equal those of the CPU."""

import copy
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import DataCollatorWithFlattening, pipeline
from transformers.utils import ModelOutput

import attnzoo
from attnzoo.alignment import forced_decode
from tests.device import pretended_device
from tests.factory import (
    CAUSAL,
    GENERATING_HEADS,
    HEADS,
    KINDS,
    ONE_STEP,
    SEQ2SEQ,
    SEQ2SEQ_HEADS,
    TEXTS,
    TOKENIZER,
    TRANSFORMER_HEADS,
    every_kind,
    inputs,
    labelled,
    make_model,
    make_trainer,
    padded_batch,
    tensors,
    tiny_model,
    weights,
)
from tests.training.runs import overrides, train_recipe

CHOSEN = list(KINDS.values())
ALIGNING = ["attentional-rnn", "attentional-rnn-luong", "transformer-encoder-decoder"]


def moved(value: Any, device: torch.device | str) -> Any:
    """The tensors of a batch, or of results, on a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict) and not isinstance(value, ModelOutput):
        return {name: moved(part, device) for name, part in value.items()}
    return type(value)(moved(part, device) for part in value) if isinstance(value, list | tuple) else value


def on_both(device: torch.device, model: nn.Module, use: Callable[[Any], Any], tolerance: float = 1e-9) -> Any:
    """The result of ``use`` with the model, which must be the same on the device and on the CPU."""
    on_device = copy.deepcopy(model).to(device)
    found, expected = moved(use(on_device), "cpu"), use(model)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    return expected


def with_gradients(model: Any, batch: dict[str, Tensor], **options: Any) -> list[Tensor]:
    """Every tensor that the model returns for a batch, and the gradients of its loss."""
    outputs = model(**moved(batch, model.device), **options)
    outputs.loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [*(part.detach() for part in tensors(outputs)), *gradients]


# The pretended device itself ------------------------------------------------------------------------------------------


def test_tensors_of_two_devices_do_not_meet(device: torch.device) -> None:
    here, there = torch.ones(2, 3), torch.ones(2, 3, device=device)
    for operation in (torch.add, torch.maximum, lambda one, other: torch.cat([one, other])):
        with pytest.raises(RuntimeError, match="same device"):
            operation(there, here)
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([there[0], torch.ones(1)])
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    assert (there * torch.tensor(2.0)).tolist() == [[2.0] * 3] * 2
    assert there[:, torch.tensor([0, 2])].shape == (2, 2)


def test_reads_of_the_host_are_counted(device: torch.device) -> None:
    values, mask = torch.arange(3, device=device), torch.ones(3, dtype=torch.bool, device=device)
    reads: list[Callable[[], Any]] = [
        values.sum().item,
        values.tolist,
        values.cpu,
        values.nonzero,
        mask.any().__bool__,
        lambda: values[mask],
        lambda: values.repeat_interleave(values),
        lambda: torch.equal(values, values),
    ]
    for read in reads:
        with pretended_device.counting() as counts:
            read()
        assert counts.reads.total() == 1, read
    with pretended_device.counting() as counts:
        values.repeat_interleave(values, output_size=3), values.where(mask, 0).sum(), values[None, :1]
    assert not counts.reads
    with pretended_device.counting() as counts:
        torch.ones(2).to(device), torch.tensor([1, 2], device=device)
    assert counts.uploads.total() == 2


def test_cudnn_has_its_demands(device: torch.device) -> None:
    rnn, values = nn.LSTM(2, 3, batch_first=True).to(device), torch.ones(2, 4, 2, device=device)
    packed = nn.utils.rnn.pack_padded_sequence(values, torch.tensor([4, 2]), batch_first=True)
    rnn(packed)[0].data.sum().backward()
    with torch.autocast(device.type, torch.bfloat16):
        assert rnn(values)[0].dtype == torch.float16
        assert nn.functional.linear(values, values[0]).dtype == torch.bfloat16
        assert values.bfloat16().softmax(dim=-1).dtype == torch.float32
    with pytest.raises(RuntimeError, match="training mode"):
        rnn.eval()(values)[0].sum().backward()
    with pytest.raises(RuntimeError, match="dtype"):
        rnn(values, (torch.ones(1, 2, 3, device=device), torch.ones(1, 2, 3, device=device).double()))


# Models ---------------------------------------------------------------------------------------------------------------


# Without dropout a Transformer computes the same in training and in evaluation.
CALLED = [(name, is_training) for name in HEADS for is_training in (True, False)]
CALLED = [(name, is_training) for name, is_training in CALLED if is_training or name not in TRANSFORMER_HEADS]


@pytest.mark.parametrize(("name", "is_training"), CALLED)
def test_outputs_and_gradients(name: str, is_training: bool, device: torch.device) -> None:
    model = tiny_model(name).train(is_training)
    requests = {"output_attentions": True, "output_hidden_states": True}
    on_both(device, model, lambda model: with_gradients(model, labelled(model), **requests))


SKIPPING = [name for name in HEADS if tiny_model(name).get_output_embeddings() is not None]


@pytest.mark.parametrize("name", SKIPPING)
def test_a_loss_without_logits(name: str, device: torch.device) -> None:
    model = tiny_model(name).train()
    batch = labelled(model) | {"attention_mask": torch.ones_like(labelled(model)["attention_mask"]).tril(3)}

    def loss_and_gradients(model: Any) -> list[Tensor]:
        loss = model(**moved(batch, model.device), skip_logits=True, smoothing=0.1).loss
        loss.backward()
        return [loss.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]

    on_both(device, model, loss_and_gradients)


def test_bad_values_raise_the_error_of_the_cpu(device: torch.device) -> None:
    model = make_model("attentional-rnn")
    ids, mask = padded_batch([3, 5])
    left, beyond = torch.tensor([[-100, 3, 4], [3, 4, 5]]), torch.tensor([[3, 4, 99], [3, 4, 5]])
    wrong: list[dict[str, Tensor]] = [{"attention_mask": 2 * mask}, {"attention_mask": 0.5 * mask}, {"labels": beyond}]
    for values in (*wrong, {"labels": left}, {"attention_mask": -mask, "labels": beyond}):
        messages = []
        for place in (torch.device("cpu"), device):
            batch = {"input_ids": ids, "attention_mask": mask, "labels": left.abs()} | values
            with pytest.raises(ValueError, match=r"attention_mask|labels") as caught:
                model.to(place)(**moved(batch, place))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@every_kind
def test_a_wrong_number_of_labels_is_no_loss(kind: str, device: torch.device) -> None:
    """The host does not wait to read it; a loss of NaN says that it is wrong."""
    model = make_model(kind).to(device)
    batch = moved(labelled(model), device)
    for number, is_right in ((7, True), (0, False), (-1, False)):
        loss = model(**batch, num_items_in_batch=torch.tensor(number, device=device)).loss
        assert bool(loss.isfinite()) == is_right
    batch["labels"] = torch.full_like(batch["labels"], -100)
    if "pair" not in kind:
        loss = model(**batch, num_items_in_batch=torch.tensor(0, device=device)).loss
        assert loss.item() == 0


@every_kind
def test_autocast(kind: str, device: torch.device) -> None:
    """Near the loss in float32, and every gradient in the parameter's own type."""
    model = make_model(kind).train()
    batch = labelled(model)
    on_device = copy.deepcopy(model).to(device)
    expected = model(**batch).loss
    with torch.autocast(device.type, torch.bfloat16):
        loss = on_device(**moved(batch, device)).loss
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.cpu(), expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("name", ["causal-pre-learned", "bidirectional-post-learned"])
def test_several_texts_in_a_row(name: str, device: torch.device) -> None:
    model = tiny_model(name)
    flattened = DataCollatorWithFlattening(return_tensors="pt")
    batch = dict(flattened([{"input_ids": [3, 4, 5]}, {"input_ids": [6, 7]}]))
    on_both(device, model, lambda model: with_gradients(model, batch))


@every_kind
def test_lora(kind: str, device: torch.device) -> None:
    model = get_peft_model(tiny_model(kind), LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    batch = labelled(model.get_base_model())
    on_both(device, model.double(), lambda model: with_gradients(model, batch))


@every_kind
def test_loading_onto_the_device(kind: str, device: torch.device, tmp_path: Path) -> None:
    model = make_model(kind)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, device_map={"": str(device)})
    batch = labelled(model)
    found = loaded(**moved(batch, device))
    assert {parameter.device for parameter in loaded.parameters()} == {device}
    torch.testing.assert_close(moved(tensors(found), "cpu"), tensors(model.eval()(**batch)))


# Decoding -------------------------------------------------------------------------------------------------------------

DECODINGS: dict[str, dict[str, Any]] = {
    "greedy": {"min_new_tokens": 2, "suppress_tokens": [5]},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "sampled": {"do_sample": True, "num_return_sequences": 2, "top_k": 5},
}
LOOPS = {"generate": None, "search": attnzoo.search}
# Every model by two of them, the chosen ones by all.
DECODED = [
    (name, loop, decoding)
    for name, loop, decoding in product(GENERATING_HEADS, LOOPS, DECODINGS)
    if name in CHOSEN or (loop, decoding) in (("generate", "greedy"), ("search", "beams"))
]


@pytest.mark.parametrize(("name", "loop", "decoding"), DECODED)
def test_decoding(name: str, loop: str, decoding: str, device: torch.device) -> None:
    ids, mask = padded_batch([5, 3, 4], side="left" if name in CAUSAL else "right")

    def decode(model: Any) -> Tensor:
        torch.manual_seed(0)
        source = moved({"input_ids": ids, "attention_mask": mask}, model.device)
        return model.generate(**source, max_new_tokens=6, custom_generate=LOOPS[loop], **DECODINGS[decoding])

    on_both(device, tiny_model(name), decode)


@pytest.mark.parametrize("name", [*SEQ2SEQ, *CAUSAL])
def test_static_cache(name: str, device: torch.device) -> None:
    ids, mask = padded_batch([5, 3], side="left")

    def decode(model: Any) -> Tensor:
        source = moved({"input_ids": ids, "attention_mask": mask}, model.device)
        return model.generate(**source, max_new_tokens=4, cache_implementation="static", disable_compile=True)

    on_both(device, tiny_model(name), decode)


@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_scoring(name: str, device: torch.device) -> None:
    batch = moved(inputs(tiny_model(name).config), "cpu")
    source, mask, target = batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"]

    def score(model: Any) -> list[Tensor]:
        found = forced_decode(
            model, moved(source, model.device), moved(target, model.device), moved(mask, model.device)
        )
        return [part for part in found if isinstance(part, Tensor)]

    on_both(device, tiny_model(name), score)


@pytest.mark.parametrize("kind", ALIGNING)
def test_alignments_views_and_pipelines(kind: str, device: torch.device) -> None:
    def use(model: Any) -> Any:
        pairs = attnzoo.align(model, TOKENIZER, TEXTS[:3], TEXTS[3:6])
        view = attnzoo.view(model, TOKENIZER, TEXTS[0], TEXTS[1])
        translate = pipeline("machine-translation", model=model, tokenizer=TOKENIZER, device=model.device)
        found = translate(TEXTS[:3], num_beams=2, n_best=2, batch_size=2, alignments=True)
        texts.append([[target["translation_text"] for target in targets] for targets in found])
        return [[pair.weights for pair in pairs], view.weights]

    texts: list[Any] = []
    on_both(device, make_model(kind, seed=1), use, tolerance=1e-5)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("transformer")])
def test_recording_attention(kind: str, device: torch.device) -> None:
    model = tiny_model(kind)
    batch = inputs(model.config)

    def record(model: Any) -> Any:
        with attnzoo.record_attention(model) as recorded:
            model(**moved(batch, model.device))
        return [[part for part in parts] for parts in recorded.values()]

    on_both(device, model, record)


# Training -------------------------------------------------------------------------------------------------------------


@every_kind
def test_trainer(kind: str, device: torch.device, trains_on: Any, tmp_path: Path) -> None:
    """A step of accumulated gradients with the library's own collators, and an evaluation."""
    trained = []
    for place in (torch.device("cpu"), device):
        trains_on(place)
        model = make_model(kind).double()
        settings = ONE_STEP | {"dataloader_pin_memory": False}  # torch has no pinned memory for a backend in Python
        settings |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "use_cpu": False}
        trainer = make_trainer(model, tmp_path, **settings)
        trainer.train()
        assert trainer.model.device == place
        trained.append([trainer.evaluate()["eval_loss"], moved(weights(trainer.model), "cpu")])
    torch.testing.assert_close(trained[1], trained[0], rtol=1e-9, atol=1e-9)


def test_attnzoo_train(device: torch.device, trains_on: Any, dictionary: Path, tmp_path: Path) -> None:
    trains_on(device)
    sets = [*overrides("training", max_steps=3, evaluations=1, log_every=1, max_minutes=None, batch_tokens=100)]
    sets += [*overrides("model", encoder_hidden_size=8, decoder_hidden_size=16, embedding_size=8, readout_size=8)]
    train_recipe("demo", tmp_path / "run", [*sets, f"task.data.path={dictionary}"])
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()
