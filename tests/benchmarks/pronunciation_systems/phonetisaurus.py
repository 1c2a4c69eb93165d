"""phonetisaurus, trained on the words of the request, with its own defaults."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder, whose file has the name of the package
import phonetisaurus

if __name__ == "__main__":
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.fst"
        phonetisaurus.train({word: [one.split() for one in listed] for word, listed in request["train"]}, model)
        found = dict(phonetisaurus.predict(request["words"], model))
    print("\n" + json.dumps([" ".join(found.get(word, [])) for word in request["words"]]))
