r"""Lin's pooling compared with mean, max and first-token pooling, over one small encoder.

``python -m attnzoo.training.studies.pooling --sst2 FOLDER --sick FOLDER`` fine-tunes the encoder of the published
masked language model ``small-transformer-sotu-masked`` four times for every data set and seed, with ``Trainer``. Only
the pooling differs. It prints the accuracy on the test split, and for Lin's pooling the difference from mean pooling
with its 95 % interval over the test sentences (a paired bootstrap of 2,000 samples over the sentences, the predictions
of all seeds together).

SICK is of pairs, which the encoder reads as one text.
"""

import argparse
import tempfile
from typing import Any

import datasets
import torch
from torch import Tensor
from transformers import (
    AutoModel,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from attnzoo import model_path, with_self_attentive_pooling
from attnzoo.commands.parsers import command_parser

from ..commands.exits import exit_on_user_error
from ..statistics import bootstrap_mean
from .study import mean_and_range, print_table

ENCODER = "small-transformer-sotu-masked"
POOLINGS = {"Lin's, 4 hops": "self_attentive", "mean": "mean", "max": "max", "first token": "cls"}
DATA = ("sst2", "sick")
SAMPLES = 2000


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = parser().parse_args(arguments)
    with exit_on_user_error():
        folders = {name: getattr(options, name) for name in DATA if getattr(options, name) is not None}
        if not folders:
            raise ValueError("name a data set: --sst2 FOLDER or --sick FOLDER, with train, validation and test.parquet")
        for name, folder in folders.items():
            run(name, folder, options.steps, options.batch_size, options.learning_rate, options.seeds)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = command_parser("python -m attnzoo.training.studies.pooling", __doc__.split("\n")[0])
    made.add_argument("--sst2", help="folder or Hub id of SST-2: a column of text, and label")
    made.add_argument("--sick", help="folder or Hub id of SICK: two columns of text, and label")
    made.add_argument("--steps", type=int, default=400, help="of each training; default: %(default)s")
    made.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    made.add_argument("--learning-rate", type=float, default=1e-3, help="default: %(default)s")
    made.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    return made


def run(name: str, path: str, steps: int, batch_size: int, learning_rate: float, seeds: tuple[int, ...]) -> None:
    """Train every pooling with every seed on one data set, and print the table."""
    tokenizer = AutoTokenizer.from_pretrained(model_path(ENCODER))
    rows = datasets.load_dataset(path)
    splits = {split: encoded(rows[split], tokenizer) for split in ("train", "test")}
    num_labels = len(set(rows["train"]["label"]))
    right: dict[str, list[Tensor]] = {}
    for seed in seeds:
        for called, pooling in POOLINGS.items():
            set_seed(seed)
            encoder = AutoModel.from_pretrained(model_path(ENCODER))
            model = with_self_attentive_pooling(
                encoder, 4, pooling=pooling, num_labels=num_labels, penalty_coefficient=0.01
            )
            with tempfile.TemporaryDirectory() as folder:
                arguments = TrainingArguments(
                    folder,
                    max_steps=steps,
                    per_device_train_batch_size=batch_size,
                    per_device_eval_batch_size=256,
                    learning_rate=learning_rate,
                    warmup_steps=steps // 10,
                    weight_decay=0.01,
                    seed=seed,
                    save_strategy="no",
                    report_to="none",
                    disable_tqdm=True,
                    logging_strategy="no",
                )
                trainer = Trainer(
                    model, arguments, train_dataset=splits["train"], data_collator=DataCollatorWithPadding(tokenizer)
                )
                trainer.train()
                predicted: Any = trainer.predict(splits["test"])
            logits = predicted.predictions[0] if isinstance(predicted.predictions, tuple) else predicted.predictions
            hits = torch.as_tensor(logits).argmax(dim=-1) == torch.as_tensor(predicted.label_ids)
            right.setdefault(called, []).append(hits.double())
            print(f"{name}, seed {seed}, {called}: {100 * hits.double().mean():.2f} %", flush=True)
    print(f"\n{name}, test split, {steps} steps, {len(seeds)} seeds (lowest to highest):\n")
    table = [[called, mean_and_range([100 * float(part.mean()) for part in of])] for called, of in right.items()]
    print_table(["pooling", "accuracy %"], *table)
    lin, mean = (torch.stack(right[called]).mean(dim=0) for called in ("Lin's, 4 hops", "mean"))
    low, high = interval(lin - mean)
    print(f"\nLin's minus mean: {100 * float((lin - mean).mean()):+.2f} (95 % interval {low:+.2f} to {high:+.2f})")


def encoded(rows: Any, tokenizer: PreTrainedTokenizerBase) -> Any:
    """The rows with ids and labels alone; their columns of text are one text or a pair."""
    columns = [name for name, kind in rows.features.items() if getattr(kind, "dtype", None) == "string"]

    def encode(batch: dict[str, Any]) -> Any:
        made = tokenizer(*(batch[column] for column in columns), truncation=True, max_length=128)
        return {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"], "labels": batch["label"]}

    return rows.map(encode, batched=True, remove_columns=rows.column_names)


def interval(differences: Tensor, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of a mean over sentences, in percentage points, by bootstrap over the sentences.

    Shape:
        - differences: (N,), one for each sentence
    """
    generator = torch.Generator().manual_seed(seed)  # the published figures are of these draws
    rows = torch.randint(len(differences), (SAMPLES, len(differences)), generator=generator)
    _, low, high = bootstrap_mean(100 * differences.numpy(), rows=rows.numpy())
    return low, high


if __name__ == "__main__":
    main()
