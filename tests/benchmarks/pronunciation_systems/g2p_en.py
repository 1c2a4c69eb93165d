"""The network of g2p-en, without its dictionary and its tagger, which it would download.

It prints the pronunciations of the words of standard input, or with ``--speed`` their number per second of processor
time.
"""

import json
import sys
import time
from unittest.mock import MagicMock

sys.path.pop(0)  # this folder, whose file has the name of the package
sys.modules |= {name: MagicMock() for name in ("inflect", "nltk", "nltk.corpus", "nltk.tokenize")}  # for numbers, texts
from g2p_en import G2p  # noqa: E402

if __name__ == "__main__":
    predict = G2p().predict
    words = json.load(sys.stdin)["words"]
    for word in words[:20]:
        predict(word)
    begun = time.process_time()
    found = [" ".join(predict(word)) for word in words]
    print(len(words) / (time.process_time() - begun) if "--speed" in sys.argv else json.dumps(found))
