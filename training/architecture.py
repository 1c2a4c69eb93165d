"""The sentence of a card about a model and its papers, from the model's config."""

import functools
from pathlib import Path
from typing import NamedTuple

import jinja2
from transformers import PreTrainedConfig


class Paper(NamedTuple):
    """A paper that models follow."""

    name: str
    title: str
    url: str


PAPERS = {
    "cho2014": Paper(
        "Cho et al. (2014)",
        "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation",
        "https://arxiv.org/abs/1406.1078",
    ),
    "sutskever2014": Paper(
        "Sutskever et al. (2014)",
        "Sequence to Sequence Learning with Neural Networks",
        "https://arxiv.org/abs/1409.3215",
    ),
    "bahdanau2014": Paper(
        "Bahdanau et al. (2014)",
        "Neural Machine Translation by Jointly Learning to Align and Translate",
        "https://arxiv.org/abs/1409.0473",
    ),
    "luong2015": Paper(
        "Luong et al. (2015)",
        "Effective Approaches to Attention-based Neural Machine Translation",
        "https://arxiv.org/abs/1508.04025",
    ),
    "see2017": Paper(
        "See et al. (2017)",
        "Get To The Point: Summarization with Pointer-Generator Networks",
        "https://arxiv.org/abs/1704.04368",
    ),
    "lin2017": Paper(
        "Lin et al. (2017)", "A Structured Self-attentive Sentence Embedding", "https://arxiv.org/abs/1703.03130"
    ),
    "vaswani2017": Paper("Vaswani et al. (2017)", "Attention Is All You Need", "https://arxiv.org/abs/1706.03762"),
    "kim2019": Paper(
        "Kim et al. (2019)",
        "From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
        "https://aclanthology.org/D19-5632",
    ),
    "radford2018": Paper(
        "Radford et al. (2018)",
        "Improving Language Understanding by Generative Pre-Training",
        "https://openai.com/index/language-unsupervised/",
    ),
    "devlin2019": Paper(
        "Devlin et al. (2019)",
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
        "https://arxiv.org/abs/1810.04805",
    ),
}


def architecture(config: PreTrainedConfig) -> tuple[str, list[str]]:
    """The sentence about the model, as Markdown, and the keys in ``PAPERS`` of the papers that it cites."""
    cited: dict[str, None] = {}

    def cite(key: str) -> str:
        cited[key] = None
        name, title, url = PAPERS[key]
        return f"[{name}]({url}), *{title}*"

    return " ".join(template("architecture.md").render(config=config, cite=cite).split()), [*cited]


@functools.cache
def template(name: str) -> jinja2.Template:
    """A compiled template of this folder; compiling takes longer than rendering."""
    return jinja2.Template(Path(__file__).with_name(name).read_text(encoding="utf-8"))
