"""Teacher forcing: the words that the decoder reads in training."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.attention.tensors import assert_equal
from tests.recurrent.wirings import (
    LOSS_CASES,
    MASK,
    SIZES,
    TARGET,
    assert_same_alignments,
    assert_same_gradients,
    batch,
    gradients,
    loop_translation,
    params,
    wired_model,
    words_read,
)
from tests.reference import attentional_rnn as reference

OWN_WORDS_CASES = [case for case in LOSS_CASES if case.get("window") != "predictive"]


@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_without_teacher_forcing_the_decoder_reads_its_own_words(case: dict[str, Any]) -> None:
    """Logits, alignments and gradients equal those of a loop that reads its own words; the loss is still that of the
    labels.
    """
    model, inputs = wired_model(case | {"teacher_forcing_ratio": 0}).train(), batch()
    with torch.no_grad():
        read = reference.own_words(model, inputs["input_ids"], inputs["attention_mask"], TARGET)
    assert not torch.equal(read, words_read(model, inputs["labels"]))
    expected = reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read)
    loss = reference.cross_entropy(expected.logits, inputs["labels"])
    outputs = model(**inputs, output_attentions=True)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert_same_alignments(outputs, expected)
    assert_equal(outputs.loss, loss, "loss")
    assert_same_gradients(gradients(outputs.loss, model), gradients(loss, model))


@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_full_teacher_forcing_draws_nothing(case: dict[str, Any]) -> None:
    model, inputs = wired_model(case | {"teacher_forcing_ratio": 1}).train(), batch()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert_equal(model(**inputs).logits, loop_translation(model, inputs).logits, "logits")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_only_a_training_step_reads_anything_but_what_it_is_given(ratio: float) -> None:
    """Evaluation, a pass without gradients, and a target that continues a cache read the given words."""
    model, inputs = wired_model(LOSS_CASES[-1] | {"teacher_forcing_ratio": ratio}).train(), batch()
    expected, read = loop_translation(model, inputs).logits, words_read(model, inputs["labels"])
    source = {"input_ids": inputs["input_ids"], "attention_mask": MASK}
    start = model(**source, decoder_input_ids=read[:, :1])
    rest = model(**source, decoder_input_ids=read[:, 1:], past_key_values=start.past_key_values)
    assert_equal(torch.cat([start.logits, rest.logits], dim=1), expected, "logits through the cache")
    with torch.no_grad():
        assert_equal(model(**inputs).logits, expected, "logits without gradients")
    assert_equal(model.eval()(**inputs).logits, expected, "logits in evaluation")


@pytest.mark.parametrize("ratio", [0.25, 0.5])
@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_each_word_is_kept_with_the_probability_of_the_ratio(case: dict[str, Any], ratio: float) -> None:
    model = wired_model(case | {"teacher_forcing_ratio": ratio}).train()
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(3, SIZES["vocab_size"], (80, 30), generator=generator)
    seen: list[Tensor] = []
    model.model.register_forward_pre_hook(
        lambda module, arguments, named: seen.append(named["decoder_input_ids"]), with_kwargs=True
    )
    torch.manual_seed(0)
    logits = model(input_ids=words[:, :5], decoder_input_ids=words).logits
    read, own = seen[-1], logits[:, :-1].argmax(dim=-1)  # the last call is the one with all the words
    assert torch.equal(read[:, 0], words[:, 0])  # the start token is not up for choice
    read, given = read[:, 1:], words[:, 1:]
    assert ((read == given) | (read == own)).all()
    differs = own != given
    kept = (read == given) & differs
    count = int(differs.sum())
    assert count > 1000
    assert (kept.sum() / count).item() == pytest.approx(ratio, abs=5 * (ratio * (1 - ratio) / count) ** 0.5)
    for dim in (0, 1):  # word by word: neither all rows of a step nor all steps of a row go the same way
        share = kept.sum(dim) / differs.sum(dim)
        assert ((share > 0) & (share < 1)).all()


def test_words_are_mixed_with_labels_and_with_decoder_input_ids_alike() -> None:
    model, inputs = wired_model(LOSS_CASES[-1] | {"teacher_forcing_ratio": 0.5}).train(), batch()
    read = words_read(model, inputs["labels"])
    results = []
    for target in ({"labels": inputs["labels"]}, {"decoder_input_ids": read}):
        torch.manual_seed(0)
        results.append(model(input_ids=inputs["input_ids"], attention_mask=MASK, **target).logits)
    assert_equal(*results)
    assert not torch.allclose(results[0], model.eval()(**inputs).logits)
