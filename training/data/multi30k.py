"""Multi30k: captions of photographs in several languages."""

from .known import KnownData
from .licenses import License, Origin

RESEARCH = License(
    name="research-and-education-only",
    commercial=False,
    url="https://github.com/BryanPlummer/flickr30k_entities",
    terms="Multi30k translates captions of Flickr30k, and Flickr30k Entities says of the images: "
    '"They are solely provided for researchers and educators who wish to use the dataset for non-commercial research '
    'and/or educational purposes."',
)

MULTI30K = KnownData(
    path=r"(.*/)?(?i:multi30k)[^/]*",
    name="Multi30k, task 1 of its authors' repository (Elliott et al., 2016; test split: test2016)",
    license=RESEARCH,
    sources=(Origin(name="Multi30k, of Flickr30k", license=RESEARCH, url="https://github.com/multi30k/dataset"),),
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
