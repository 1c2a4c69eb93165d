"""The certificates of the shipped models' exports, for the page on export: into ``docs/certificates.json``.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.certificates

Every model is exported with ``attnzoo export``, in float32 and in eight bits.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnzoo.export.certificate import BEAMS
from attnzoo.export.run import DETAILS
from tests.benchmarks.environments import ROOT
from tests.benchmarks.run import commit_of_code, markdown_table, processor_name

STORED = ROOT / "docs" / "certificates.json"
MULTILINGUAL = "attentional-rnn-g2p-multilingual"
WITHOUT_METRIC = ("small-transformer-sotu-causal", "small-transformer-sotu-masked")
MODELS = (
    *(f"attentional-rnn-g2p-{name}" for name in ("cmudict", "kokoro", "it", "sv")),
    *(MULTILINGUAL, "attentional-rnn-multi30k-en-de", "small-transformer-multi30k-en-de"),
    *("small-transformer-ssru-tatoeba-en-de", *WITHOUT_METRIC, "self-attentive-sst2"),
)
WEIGHTS = ("float32", "int8")


def measure(model: str, weights: str) -> dict[str, Any]:
    """The certificate of an export, which fails if the command does."""
    with TemporaryDirectory() as folder:
        output = Path(folder, "export")
        # Outputs in float32 are equal, so a thousand texts are enough; and 3,000 of the 44,171 words of 135 languages.
        most = 1000 if weights == "float32" else 3000 if model == MULTILINGUAL else None
        scored = ["--examples", str(most)] if most and model not in WITHOUT_METRIC else []
        subprocess.run(
            [sys.executable, "-m", "attnzoo.cli", "export", model, str(output), "--weights", weights, *scored],
            check=True,
        )
        return json.loads((output / DETAILS).read_text(encoding="utf-8"))["certificate"]


def table(certificates: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of the exports in eight bits."""
    lines = [["model in int8", f"equal: greedy, beam {BEAMS}", "largest difference of logits", "metrics", "texts"]]
    for model, of_model in certificates.items():
        found = of_model["int8"]
        counts = [str(found[key]) for key in ("greedy", "beams", "predictions") if key in found]
        metrics = [
            f"{found['metrics'][key][0]} {before:.2f}, {after:.2f}"
            for key, (before, after) in found.get("scores", {}).items()
            if key in ("per", "wer", "bleu", "accuracy")
        ]
        scored = f"{found['scored']:,}" if metrics else ""
        equal = f"{', '.join(counts)} of {found['examples']}{' predictions' if 'predictions' in found else ''}"
        lines.append([f"`{model}`", equal, f"{found['logits']:.2g}", "; ".join(metrics), scored])
    return markdown_table(*lines)


def main() -> None:
    """Measure all."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    about = {"processor": processor_name(), "commit": commit_of_code()}
    certificates = {model: {weights: measure(model, weights) for weights in WEIGHTS} for model in MODELS}
    STORED.write_text(json.dumps(about | {"certificates": certificates}, indent=1) + "\n", encoding="utf-8")
    print(table(certificates))


if __name__ == "__main__":
    main()
