"""yoyodyne's attentive LSTM with its own defaults, stopped by the loss on the validation words of the request."""

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, whose file has the name of the package
from yoyodyne.cli.main import python_interface

PATIENCE = 5  # epochs without a smaller loss, after which training ends
MODEL = {
    "class_path": "yoyodyne.models.SoftAttentionLSTMModel",
    "init_args": {"source_encoder": {"class_path": "yoyodyne.models.modules.LSTMEncoder"}},
}
STOPPING = {
    "class_path": "lightning.pytorch.callbacks.EarlyStopping",
    "init_args": {"monitor": "val_loss", "patience": PATIENCE},
}


def run(command: str, folder: Path, config: dict[str, Any], *more: str) -> None:
    """One of yoyodyne's commands with a config, which it reads from a file."""
    path = folder / f"{command}.yaml"
    path.write_text(json.dumps(config))
    python_interface([command, "--config", str(path), *more])


def predictions(request: dict[str, Any], folder: Path) -> list[str]:
    """The pronunciations of the words of the request, by a model that is trained in the folder."""
    for split in ("train", "validation"):
        rows = (f"{word}\t{one}\n" for word, listed in request[split] for one in listed)
        (folder / split).write_text("".join(rows))
    (folder / "words").write_text("".join(f"{word}\n" for word in request["words"]))
    trainer = {"accelerator": "cpu", "enable_progress_bar": False, "default_root_dir": str(folder)}
    data = {"model_dir": str(folder / "model"), "target_sep": " "}
    fitting = {"max_epochs": request["max_epochs"], "gradient_clip_val": 3, "callbacks": [STOPPING]}
    run(
        "fit",
        folder,
        {
            "seed_everything": 1,
            "trainer": trainer | fitting,
            "checkpoint": {"monitor": "val_loss", "mode": "min", "filename": "best"},
            "data": data | {"train": str(folder / "train"), "val": str(folder / "validation")},
            "model": MODEL,
        },
    )
    (best,) = folder.glob("**/best.ckpt")
    predicting = {"data": data | {"predict": str(folder / "words"), "target_col": 0}, "model": MODEL}
    run(
        "predict",
        folder,
        predicting | {"trainer": trainer, "prediction": {"path": str(folder / "predictions")}},
        "--ckpt_path",
        str(best),
    )
    return (folder / "predictions").read_text().splitlines()


if __name__ == "__main__":
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        found = predictions(request, Path(folder))
    print("\n" + json.dumps(found))
