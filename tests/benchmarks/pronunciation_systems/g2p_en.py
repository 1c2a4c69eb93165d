"""The network of g2p-en, without its dictionary and its tagger, which it would download."""

import json
import sys
from unittest.mock import MagicMock

sys.path.pop(0)  # this folder, whose file has the name of the package
sys.modules |= {name: MagicMock() for name in ("inflect", "nltk", "nltk.corpus", "nltk.tokenize")}  # for numbers, texts
from g2p_en import G2p  # noqa: E402

if __name__ == "__main__":
    predict = G2p().predict
    print(json.dumps([" ".join(predict(word)) for word in json.load(sys.stdin)["words"]]))
