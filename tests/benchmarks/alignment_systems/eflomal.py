"""eflomal with its own defaults, on the pairs of the request."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder, whose file has the name of the package
import eflomal

if __name__ == "__main__":
    pairs = json.load(sys.stdin)
    sources, targets = ([" ".join(words) + "\n" for words in side] for side in zip(*pairs, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("forward", "reverse")]
        eflomal.Aligner().align(sources, targets, links_filename_fwd=files[0], links_filename_rev=files[1])
        links = [Path(file).read_text().removesuffix("\n").split("\n") for file in files]
    print("\n" + json.dumps(links))
