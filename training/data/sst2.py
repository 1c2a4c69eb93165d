"""The Stanford Sentiment Treebank (Socher et al., 2013), as a dataset of the Hub."""

from .known import KnownData

SST2 = KnownData(
    path="SetFit/sst2",
    name="Stanford Sentiment Treebank, two classes, whole sentences",
    license={"license": "unknown"},
    language="en",
    limits="English sentences of film reviews, of one opinion each. The treebank (Socher et al., 2013) comes without a "
    "licence, which the Hub calls unknown, and so do these weights. The attention weights show what the classifier "
    "reads. This does not prove why it decides.",
    hub_id="SetFit/sst2",
)
