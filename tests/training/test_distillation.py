"""Teachers: the loss compared with a loop over tokens, a student equal to its teacher, and errors."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from attnzoo.training.loop.distillation import Teachers
from attnzoo.training.train import main
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tests.regular_language import SMALL
from tests.training.runs import command_line, log_rows, overrides

pytestmark = pytest.mark.usefixtures("few_phonemes")
STEPS = 3
DEVICE = torch.device("cpu")


def arguments(few_words: Path, output: Path, *sets: str) -> list[str]:
    recipe = [*SMALL, f"task.data.path={few_words}", *overrides("training", max_steps=STEPS, log_every=1)]
    return command_line("demo", output, [*recipe, *sets], "--overwrite")


@pytest.fixture(scope="module")
def runs(few_words: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two trained models."""
    folders = [tmp_path_factory.mktemp("teacher") / "run" for _ in range(2)]
    for seed, folder in enumerate(folders):
        main(arguments(few_words, folder, *overrides("training", seed=seed)))
    return [folder / "best" for folder in folders]


def teachers_of(folders: list[Path], share: float) -> tuple[Teachers, torch.nn.Module, dict[str, Tensor]]:
    """The teachers, a student with the weights of the first one, and a batch."""
    tokenizer = AutoTokenizer.from_pretrained(folders[0])
    student = AutoModelForSeq2SeqLM.from_pretrained(folders[0]).eval()
    teachers = Teachers([str(f) for f in folders], share, AutoModelForSeq2SeqLM, tokenizer, student, DEVICE)
    ids = torch.arange(5, 11).view(2, 3) % len(tokenizer)
    return teachers, student, {"input_ids": ids, "labels": torch.tensor([[5, 6, 7], [8, 9, -100]])}


def test_the_loss_is_that_of_a_loop_over_the_labels(runs: list[Path]) -> None:
    teachers, student, batch = teachers_of(runs, share=0.3)
    outputs = student(**batch)
    logits, others = outputs.logits.double(), [model(**batch).logits.double() for model in teachers.models]
    total, of_labels = 0.0, 0.0
    for row, step in (batch["labels"] != -100).nonzero().tolist():
        log_probability = logits[row, step].log_softmax(0)
        mean = sum(other[row, step].softmax(0) for other in others) / len(others)
        total -= sum(q * log_p for q, log_p in zip(mean.tolist(), log_probability.tolist(), strict=True))
        of_labels -= log_probability[batch["labels"][row, step]].item()
    assert math.isclose(teachers.loss(outputs, batch, 5).item(), (0.7 * of_labels + 0.3 * total) / 5, rel_tol=1e-5)


def test_a_student_that_equals_its_teacher_has_no_gradient_from_it(runs: list[Path]) -> None:
    teachers, student, batch = teachers_of(runs[:1], share=1.0)
    teachers.loss(student(**batch), batch, 5).backward()
    assert all(p.grad is None or p.grad.abs().max() < 1e-6 for p in student.parameters())
    student.zero_grad()
    student(**batch).loss.backward()
    assert max(float(p.grad.abs().max()) for p in student.parameters() if p.grad is not None) > 1e-3
    assert not any(p.requires_grad for model in teachers.models for p in model.parameters())


def test_the_loss_is_of_any_logits_with_labels() -> None:
    teachers = Teachers([], 1.0, AutoModelForSeq2SeqLM, *[SimpleNamespace()] * 2, DEVICE)  # type: ignore[arg-type]
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, -100, 1])  # of a classifier
    teachers.models = [lambda **batch: SimpleNamespace(logits=logits)]
    loss = teachers.loss(SimpleNamespace(logits=logits, loss=torch.zeros(())), {"labels": labels}, 3)
    entropy = torch.distributions.Categorical(logits=logits[labels != -100]).entropy().sum() / 3
    torch.testing.assert_close(loss, entropy)


def test_a_batch_without_labels_has_the_loss_0() -> None:
    """As of a masked language model, where no token of a short text is masked."""
    teachers = Teachers([], 0.5, AutoModelForMaskedLM, *[SimpleNamespace()] * 2, DEVICE)  # type: ignore[arg-type]
    logits, labels = torch.randn(2, 4, 3), torch.full((2, 4), -100)
    teachers.models = [lambda **batch: SimpleNamespace(logits=logits)]
    assert teachers.loss(SimpleNamespace(logits=logits, loss=torch.zeros(())), {"labels": labels}, 0) == 0


def test_a_causal_model_predicts_the_label_of_the_next_token() -> None:
    teachers = Teachers([], 1.0, AutoModelForCausalLM, *[SimpleNamespace()] * 2, DEVICE)  # type: ignore[arg-type]
    logits, labels = torch.randn(2, 4, 3), torch.tensor([[0, 2, 1, 0], [1, 1, -100, -100]])
    teachers.models = [lambda **batch: SimpleNamespace(logits=logits)]
    loss = teachers.loss(SimpleNamespace(logits=logits, loss=torch.zeros(())), {"labels": labels}, 6)
    predicted = torch.cat([logits[0, :3], logits[1, :1]])  # labels 1 to 3 of the first row, 1 of the second
    torch.testing.assert_close(loss, torch.distributions.Categorical(logits=predicted).entropy().sum() / 6)


def test_a_recipe_with_teachers_trains_another_model(few_words: Path, runs: list[Path], tmp_path: Path) -> None:
    sets = overrides("training", teachers=[str(run) for run in runs], teachers_share=0.5, seed=0)
    main(arguments(few_words, tmp_path / "student", *sets))
    alone = load_file(runs[0] / "model.safetensors")
    taught = load_file(tmp_path / "student" / "best" / "model.safetensors")
    assert any(not torch.equal(alone[name], taught[name]) for name in alone)
    assert len(log_rows(tmp_path / "student", "loss")) == STEPS
    published = (tmp_path / "student" / "best" / "recipe.yaml").read_text()
    assert str(runs[0].parent) not in published


def test_teachers_that_do_not_fit_are_refused(few_words: Path, runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no model in 'nowhere'"):
        main(arguments(few_words, tmp_path / "a", *overrides("training", teachers=["nowhere"])))
    other = tmp_path / "other.dict"  # with a phoneme more
    other.write_text(few_words.read_text().replace(" AA", " AAA", 1))
    with pytest.raises(SystemExit, match="has other tokens or classes than this recipe's data"):
        main(arguments(other, tmp_path / "b", *overrides("training", teachers=[str(runs[0])])))
    with pytest.raises(SystemExit, match=r"the model in '.*attentional-rnn-g2p-cmudict' has other tokens"):
        main(arguments(few_words, tmp_path / "b", *overrides("training", teachers=["attentional-rnn-g2p-cmudict"])))
    with pytest.raises(SystemExit, match="teachers_share must be above 0 and at most 1, got 0"):
        main(arguments(few_words, tmp_path / "c", *overrides("training", teachers_share=0)))
