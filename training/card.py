"""Model cards, filled from what a run measured, never by hand."""

from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import AutoConfig

from .recipe import Recipe

PAPERS = {
    "cho": "[Cho et al. (2014)](https://arxiv.org/abs/1406.1078), *Learning Phrase Representations using RNN "
    "Encoder-Decoder for Statistical Machine Translation*",
    "sutskever": "[Sutskever et al. (2014)](https://arxiv.org/abs/1409.3215), *Sequence to Sequence Learning with "
    "Neural Networks*",
    "bahdanau": "[Bahdanau et al. (2014)](https://arxiv.org/abs/1409.0473), *Neural Machine Translation by Jointly "
    "Learning to Align and Translate*",
    "luong": "[Luong et al. (2015)](https://arxiv.org/abs/1508.04025), *Effective Approaches to Attention-based Neural "
    "Machine Translation*",
}

TEMPLATE = """---
{{ card_data }}
---

# {{ title }}

An RNN encoder-decoder after {{ paper }}, trained with **attnzoo**: {{ architecture }}.

## Use

```python
import attnzoo  # registers the model with the Auto classes
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("{{ folder }}")
tokenizer = AutoTokenizer.from_pretrained("{{ folder }}")
inputs = tokenizer(["{{ example }}"], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

{{ usage }}

## Results

| split | examples | {{ metric_head }} | decoding |
|---|---|{{ metric_rule }}|---|
| validation | {{ examples }} | {{ metric_values }} | {{ decoding }} |

{{ metric_note }} Of all evaluations of the run this is the best one, chosen on this same split.

## Training

Data: {{ data }}, {{ split_note }}. {{ steps }} steps in {{ minutes }} minutes
({{ processes }} process(es) of {{ threads }} threads, precision {{ precision }}), seed {{ seed }}, commit
{{ git_commit }}. `recipe.yaml` in this folder is the whole recipe:

```
python -m training.train recipe.yaml
```

## Limits

{{ limits }}
"""


def write_card(written: Path, folder: Path, recipe: Recipe, task: Any, run: dict[str, Any]) -> None:
    """Write ``README.md`` into a checkpoint that is being written, from its config, recipe and the run's figures.

    ``folder`` is where the checkpoint will stand, as the card's snippet has it.
    """
    config = AutoConfig.from_pretrained(written)
    scores, training = run["validation"], recipe.training
    title = f"attentional-rnn {task.name}"
    data = ModelCardData(
        language=task.language,
        license="apache-2.0",
        library_name="transformers",
        pipeline_tag=task.pipeline_tag,
        tags=["attnzoo", "attention", *task.tags],
        metrics=list(task.metric_names),
        model_name=title,
        eval_results=[
            EvalResult(
                task_type=task.pipeline_tag,
                dataset_type=Path(recipe.task.data.path).name,
                dataset_name=task.name,
                dataset_split="validation",
                metric_type=key,
                metric_name=name,
                metric_value=round(scores[key], 2),
            )
            for key, name in task.metric_names.items()
        ],
    )
    card = ModelCard.from_template(
        data,
        template_str=TEMPLATE,
        title=title,
        paper=PAPERS[config.wiring],
        architecture=_architecture(config),
        folder=folder.name if folder.is_absolute() else folder.as_posix(),  # no machine's paths on a card
        usage=task.usage,
        metric_note=task.metric_note,
        split_note=task.split_note,
        limits=task.limits,
        example=task.example,
        metric_head=" | ".join(f"{name} %" for name in task.metric_names.values()),
        metric_rule="|".join("---" for _ in task.metric_names),
        metric_values=" | ".join(f"{scores[key]:.2f}" for key in task.metric_names),
        examples=scores["examples"],
        decoding="greedy" if training.num_beams == 1 else f"beam {training.num_beams}",
        data=task.name,
        steps=run["steps"],
        minutes=f"{run['minutes']:.1f}",
        processes=run["processes"],
        threads=run["threads"],
        precision=run["precision"],
        seed=run["seed"],
        git_commit=run["git_commit"],
    )
    card.save(written / "README.md")


def _architecture(config: Any) -> str:
    attention = f"{config.score} score, {config.window} attention" if config.score != "none" else "no attention"
    feeding = " with input feeding" if config.input_feeding else ""
    reading = "from the last token to the first" if config.reverse_source else "from the first token to the last"
    encoder = f"{config.encoder_layers} x {config.encoder_hidden_size}"
    return (
        f"{config.wiring} wiring{feeding}, {attention}, {config.cell} cells; an encoder of {encoder} "
        f"{'per direction, in both' if config.bidirectional else f'that reads {reading}'}, "
        f"a decoder of {config.decoder_layers} x {config.decoder_hidden_size}, embeddings of {config.embedding_size}"
    )
