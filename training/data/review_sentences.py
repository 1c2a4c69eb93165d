"""Sentences of film and product reviews, in one folder: MR (Pang and Lee, 2005) and CR (Hu and Liu, 2004)."""

from .known import KnownData
from .licenses import CC_BY, Origin

REVIEW_SENTENCES = KnownData(
    path=r"(.*/)?mr_cr",
    name="sentences of film reviews (MR) and of product reviews (CR)",
    license=CC_BY,
    sources=(
        Origin(
            name="MR, sentences of Rotten Tomatoes (Pang and Lee, 2005)",
            license=CC_BY,
            url="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
        ),
        Origin(
            name="CR, sentences of product reviews (Hu and Liu, 2004)",
            license=CC_BY,
            url="https://www.cs.uic.edu/~liub/FBS/sentiment-analysis.html",
        ),
    ),
    language="en",
    source="MR, sentences of [Rotten Tomatoes](https://www.cs.cornell.edu/people/pabo/movie-review-data/), and CR, "
    "sentences of [product reviews](https://www.cs.uic.edu/~liub/FBS/sentiment-analysis.html)",
    limits="English sentences of film and product reviews, of one opinion each. The attention weights show what the "
    "classifier reads. This does not prove why it decides.",
)
