"""The conditional random field of a language of gruut."""

import importlib.util
import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

sys.path.pop(0)  # this folder, whose file has the name of the package
sys.modules |= {
    name: MagicMock() for name in ("babel", "babel.core", "babel.numbers", "dateparser", "jsonlines", "networkx")
}
from gruut.g2p import GraphemesToPhonemes  # noqa: E402

if __name__ == "__main__":
    request = json.load(sys.stdin)
    package = importlib.util.find_spec(f"gruut_lang_{request['path'].removeprefix('gruut-')}")
    guess = GraphemesToPhonemes(Path(package.submodule_search_locations[0]) / "g2p" / "model.crf")
    print(json.dumps([" ".join(guess(word)) for word in request["words"]]))
