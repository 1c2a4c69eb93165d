"""The Stanford Sentiment Treebank (Socher et al., 2013), as a dataset of the Hub."""

from .known import KnownData
from .licenses import License, Origin

NONE_STATED = License(
    name="none-stated",
    commercial=False,
    url="https://huggingface.co/datasets/stanfordnlp/sst2",
    terms='The card of the treebank on the Hub says: "license: unknown".',
)

SST2 = KnownData(
    path="SetFit/sst2",
    name="Stanford Sentiment Treebank, two classes, whole sentences",
    license=NONE_STATED,
    sources=(
        Origin(
            name="Stanford Sentiment Treebank", license=NONE_STATED, url="https://huggingface.co/datasets/SetFit/sst2"
        ),
    ),
    language="en",
    limits="English sentences of film reviews, of one opinion each. The treebank (Socher et al., 2013) comes without a "
    "licence, which the Hub calls unknown, and so do these weights. The attention weights show what the classifier "
    "reads. This does not prove why it decides.",
    hub_id="SetFit/sst2",
)
