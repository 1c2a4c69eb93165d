"""Multi30k: captions of photographs in several languages."""

from .known import KnownData

MULTI30K = KnownData(
    path=r"(.*/)?(?i:multi30k)[^/]*",
    name="Multi30k, task 1 of its authors' repository (Elliott et al., 2016; test split: test2016)",
    license={
        "license": "other",
        "license_name": "research-and-education-only",
        "license_link": "https://github.com/multi30k/dataset",
    },
    language=["en", "de"],
    limits="Captions of photographs, of a dozen words, one at a time. The data, and so the model, are for research and "
    "education.",
    hub_id="bentrevett/multi30k",
    published="""\
Published figures for English to German on test2016. The model has another vocabulary and was trained for longer, and
its BLEU is computed differently, so it shows what to expect, not which model is better:

| model | BLEU |
|---|---|
| Transformer of 4 + 4 layers of width 128 \
([Wu et al., 2021](https://arxiv.org/abs/2105.14462), "Tiny", of tokenized text) | 41.02 |""",
)
