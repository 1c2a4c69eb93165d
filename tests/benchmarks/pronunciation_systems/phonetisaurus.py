"""phonetisaurus, trained on the words of the request, with its own defaults."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder, whose file has the name of the package
import phonetisaurus

SPACE = "\u2423"  # stands for a space inside a word, since a space separates the columns of phonetisaurus's files

if __name__ == "__main__":
    request = json.load(sys.stdin)
    words = [word.replace(" ", SPACE) for word in request["words"]]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.fst"
        train = {word.replace(" ", SPACE): [one.split() for one in listed] for word, listed in request["train"]}
        phonetisaurus.train(train, model)
        found = dict(phonetisaurus.predict(words, model))
    print("\n" + json.dumps([" ".join(found.get(word, [])) for word in words]))
