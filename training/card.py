"""Model cards. A program fills them with the figures of a run; they are never edited by hand.

Training and release write them. ``attnzoo card model_cards/NAME`` writes the card of a released folder again from its
``run.json``, when words here or in a task have changed. It needs the data, for the card's example, but not the run.
"""

import argparse
import json
import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig

import attnzoo  # noqa: F401  (registers the models with the Auto classes)

from .loop.run_folder import read_mapping
from .loop.stopping import exit_on_user_error
from .markdown import code, escaped, one_line
from .recipe import Recipe, hub_id, load_recipe
from .tasks import make_task
from .tasks.base import Task

PAPERS = {
    "cho": "[Cho et al. (2014)](https://arxiv.org/abs/1406.1078), *Learning Phrase Representations using RNN "
    "Encoder-Decoder for Statistical Machine Translation*",
    "sutskever": "[Sutskever et al. (2014)](https://arxiv.org/abs/1409.3215), *Sequence to Sequence Learning with "
    "Neural Networks*",
    "bahdanau": "[Bahdanau et al. (2014)](https://arxiv.org/abs/1409.0473), *Neural Machine Translation by Jointly "
    "Learning to Align and Translate*",
    "luong": "[Luong et al. (2015)](https://arxiv.org/abs/1508.04025), *Effective Approaches to Attention-based Neural "
    "Machine Translation*",
    "lin": "[Lin et al. (2017)](https://arxiv.org/abs/1703.03130), *A Structured Self-attentive Sentence Embedding*",
    "vaswani": "[Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762), *Attention Is All You Need*",
    "radford": "[Radford et al. (2018)](https://openai.com/index/language-unsupervised/), *Improving Language "
    "Understanding by Generative Pre-Training*",
    "devlin": "[Devlin et al. (2019)](https://arxiv.org/abs/1810.04805), *BERT: Pre-training of Deep Bidirectional "
    "Transformers for Language Understanding*",
}

# The names that the Hub and the evaluate library have for our metrics, where they differ.
HUB_METRICS = {"bleu": "sacrebleu", "macro_f1": "f1", "masked_accuracy": "accuracy", "matthews": "matthews_correlation"}

# The figures that run.json must have, and their types.
FIGURES: dict[str, Any] = {name: int for name in ("steps", "seed", "processes", "threads")}
FIGURES |= {"minutes": float | int, "precision": str, "validation": dict}

TEMPLATE = Path(__file__).with_name("card.md")  # in Jinja


def describe(task: Task, scores: dict[str, float]) -> str:
    """The task's metrics in one line."""
    return ", ".join(f"{name} {scores[key]:.2f}{task.units.get(key, '')}" for key, name in task.metric_names.items())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="attnzoo card", description="Write a card again.", epilog="example: attnzoo card my-model"
    )
    parser.add_argument("folder", type=Path, help="a released model, such as model_cards/NAME")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="where the data is")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        path, figures = options.folder / "recipe.yaml", read_figures(options.folder)
        task = make_task(load_recipe(path, options.set))
        write_card(options.folder, options.folder, load_recipe(path), task, figures)


def read_figures(folder: Path) -> dict[str, Any]:
    """The figures in ``run.json`` of a folder.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, or lacks a figure.
    """
    run = read_mapping(folder / "run.json")
    if missing := [name for name, kind in FIGURES.items() if not isinstance(run.get(name), kind)]:
        raise ValueError(f"{folder / 'run.json'} is damaged: it has no {', '.join(missing)}")
    return run


def write_card(written: Path, folder: Path, recipe: Recipe, task: Task, run: dict[str, Any]) -> None:
    """Write ``README.md`` into a checkpoint that is being written, from its config, its recipe and the run's figures.

    The card's snippet loads ``folder``, where the checkpoint will be. If ``run`` has the figures of the test split
    under "test", the metadata have these, and the card shows the published figures. A "note" in ``run`` is shown too.
    """
    config = AutoConfig.from_pretrained(written)
    words, name = task.card, one_line(task.name)
    is_released, generates = "test" in run, task.num_beams is not None
    scores = {"validation": run["validation"] | ({"num_beams": recipe.training.num_beams} if generates else {})}
    if is_released:
        scores["test"] = run["test"]
    title = one_line(folder.resolve().name) if is_released else f"{config.model_type.replace('_', '-')} {name}"
    reported = "test" if is_released else "validation"
    leads_out = folder.is_absolute() or folder == Path() or ".." in folder.parts
    shown = folder.resolve().name if leads_out else folder.as_posix()  # a card shows no path of this machine
    columns = {key: f"{column}{task.units.get(key, '')}" for key, column in task.metric_names.items()}
    metrics = {key: HUB_METRICS.get(key, key) for key in columns}
    dataset, license_fields = hub_id(recipe), dict[str, Any](words.license)
    data = ModelCardData(
        language=words.language,
        datasets=[dataset] if dataset else None,
        **license_fields,
        library_name="transformers",
        pipeline_tag=words.pipeline_tag,
        tags=["attnzoo", "attention", *words.tags],
        metrics=list(metrics.values()),
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=words.pipeline_tag or words.tags[0],
                dataset_type=dataset or _slug(Path(recipe.task.data.path).name),
                dataset_name=name,
                dataset_split=reported,
                metric_type=metrics[key],
                metric_name=column,
                metric_value=round(scores[reported][key], 2),
            )
            for key, column in columns.items()
        ],
    )
    card = ModelCard.from_template(
        data,
        template_path=str(TEMPLATE),
        title=escaped(title),
        architecture=ARCHITECTURES[config.model_type](config),
        evaluation=code(f"attnzoo evaluate {shlex.quote(shown)}"),
        snippet=words.snippet.format(
            folder=json.dumps(shown, ensure_ascii=False)[1:-1], example=json.dumps(words.example, ensure_ascii=False)
        ),
        words=words,
        columns=["split", "examples", *columns.values()] + (["decoding"] if generates else []),
        results=[
            [split, row["examples"], *(f"{row[key]:.2f}" for key in columns)]
            + (["greedy" if row["num_beams"] == 1 else f"beam {row['num_beams']}"] if generates else [])
            for split, row in scores.items()
        ],
        is_released=is_released,
        pictures=[(name, caption) for name, caption in words.pictures.items() if (written / name).is_file()],
        data=escaped(name),
        dataset=dataset,
        run=run,
        parameters=f"{_parameters(written) / 1e6:.1f}",
    )
    card.save(written / "README.md")


def _slug(name: str) -> str:
    """A name of data that the Hub accepts where an id would stand."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)


def _parameters(written: Path) -> int:
    path = written / "model.safetensors"
    try:
        with safe_open(path, framework="pt") as weights:
            return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise OSError(f"{path} is damaged or incomplete: {error}") from error


def _attentional_rnn(config: Any) -> str:
    attention = f"{config.score} score, {config.window} attention" if config.score != "none" else "no attention"
    feeding = " with input feeding" if config.input_feeding else ""
    reading = "from the last token to the first" if config.reverse_source else "from the first token to the last"
    encoder = f"{config.encoder_layers} x {config.encoder_hidden_size}"
    return (
        f"An RNN encoder-decoder after {PAPERS[config.wiring]}, trained with **attnzoo**: "
        f"{config.wiring} wiring{feeding}, {attention}, {config.cell} cells; an encoder of {encoder} "
        f"{'per direction, in both' if config.bidirectional else f'that reads {reading}'}, "
        f"a decoder of {config.decoder_layers} x {config.decoder_hidden_size}, embeddings of {config.embedding_size}"
    )


def _self_attentive(config: Any) -> str:
    related = ", related by the gated encoder" if config.sentence_pair else ""
    paper = {"num_hops": 30, "attention_hidden_size": 150, "hidden_size": 300, "classifier_size": 2000}
    smaller = all(getattr(config, name) < size for name, size in paper.items())
    return (
        f"A structured self-attentive classifier of {'sentence pairs' if config.sentence_pair else 'sentences'} after "
        f"{PAPERS['lin']}, trained with **attnzoo**: {config.num_hops} hops of attention (attention width "
        f"{config.attention_hidden_size}) over a bidirectional {config.cell} of {config.num_hidden_layers} x "
        f"{config.hidden_size} per direction{related}, embeddings of {config.embedding_size}, an MLP of "
        f"{config.classifier_size} units, penalty coefficient {config.penalty_coefficient}"
        + (
            ". The sizes are below the paper's: 30 hops of width 150 or 350, 300 per direction, an MLP of 2,000 to "
            "4,000 units, which alone has 54 million weights where it has 3,000"
            if smaller
            else ""
        )
    )


def _small_transformer(config: Any) -> str:
    is_what = {
        "encoder_decoder": f"A Transformer encoder-decoder after {PAPERS['vaswani']}",
        "bidirectional": f"A Transformer encoder after {PAPERS['vaswani']}, as a masked language model after "
        f"{PAPERS['devlin']}",
        "causal": f"A Transformer decoder after {PAPERS['vaswani']}, as a language model after {PAPERS['radford']}",
    }
    return (
        f"{is_what[config.attention_pattern]}, trained with **attnzoo**: {config.num_hidden_layers} layers of width "
        f"{config.hidden_size} with {config.num_attention_heads} heads, feed-forward layers of "
        f"{config.intermediate_size} with {config.activation.upper() if config.activation == 'gelu' else 'ReLU'}, "
        f"{config.norm}-layer normalisation, {config.position_embedding} positions, dropout {config.dropout}, a "
        f"vocabulary of {config.vocab_size:,}"
    )


ARCHITECTURES: dict[str, Callable[[Any], str]] = {
    "attentional_rnn": _attentional_rnn,
    "self_attentive": _self_attentive,
    "small_transformer": _small_transformer,
}


if __name__ == "__main__":
    main()
