"""Run Python programs, each as if in a new process, with its own home, in which nothing is cached.

They are forked from one process that has imported torch, since that import takes most of the time. It has imported no
module that reads the Hub's settings. A Python process that such a program starts by ``subprocess.run`` is a fork, too.

    python -P client.py ADDRESS

answers the requests of :func:`run_python` until its standard input ends. On macOS, where such a fork may crash, and on
Windows, which has none, each program is a new process.
"""

import functools
import gc
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import types
from importlib import import_module
from multiprocessing.connection import Client, Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Transformers imports these.
PRELOADED = ["torch._dynamo", "torch.distributed.tensor", "torch.nn.attention.flex_attention", "scipy.optimize"]
PRELOADED += ["sklearn.metrics", "jinja2.sandbox", "PIL.Image", "yaml"]
FORKS: Any = multiprocessing.get_context("fork") if sys.platform == "linux" else None
# Settings of the machine that would reach into a test, or lead its requests elsewhere.
FOREIGN = ("HF_", "HUGGING", "TRANSFORMERS_", "PYTHONPATH")


def environment(endpoint: str, home: Path, token: str | None, xet: bool, **settings: str) -> dict[str, str]:
    """The environment variables of a process; its caches are under ``home``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN) and not name.lower().endswith("_proxy")
    }
    kept |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    kept["DISABLE_SAFETENSORS_CONVERSION"] = "true"  # by a service of Hugging Face's, which is on no loopback
    if not xet:
        kept["HF_HUB_DISABLE_XET"] = "1"
    if token is not None:
        kept["HF_TOKEN"] = token
    return kept | settings


@functools.cache
def start() -> tuple[subprocess.Popen[str], Any]:
    """The process that will be forked, and the folder of its address."""
    folder = tempfile.TemporaryDirectory()
    command = [sys.executable, "-P", __file__, f"{folder.name}/address"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process, folder


def run_python(
    *arguments: str,
    environment: dict[str, str],
    cwd: Path = ROOT,
    without_attnzoo: bool = False,
    address: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """The output of ``python ARGUMENTS``, and its exit code. Standard input is empty. It is killed after ten minutes.

    ``without_attnzoo``: as if the package were not installed.
    """
    if FORKS is None:
        if without_attnzoo:
            import pytest

            pytest.skip("attnzoo is hidden in a fork of Linux")
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, cwd=cwd
        )
    with tempfile.TemporaryDirectory() as output, Client(address or f"{start()[1].name}/address") as connection:
        connection.send((arguments, environment, str(cwd), without_attnzoo, output))
        process = connection.recv()
        if not connection.poll(timeout=600):
            os.kill(process, signal.SIGKILL)
        code = connection.recv()
        printed, errors = ((Path(output) / name).read_text() for name in ("1", "2"))
    return subprocess.CompletedProcess(arguments, code, printed, errors)


def serve(address: str) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen()
    print("ready", flush=True)
    while server in wait([server, sys.stdin]):
        accepted, _ = server.accept()
        FORKS.active_children()  # which forgets those that have ended
        FORKS.Process(target=answer, args=(address, accepted)).start()
        accepted.close()


def answer(address: str, accepted: socket.socket) -> None:
    connection = Connection(accepted.detach())
    process = FORKS.Process(target=become, args=(address, *connection.recv()))
    process.start()
    connection.send(process.pid)
    process.join()
    connection.send(process.exitcode)


def become(address: str, arguments: list[str], environment: dict[str, str], cwd: str, hides: bool, output: str) -> None:
    """Run ``python ARGUMENTS`` in this process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, file in enumerate((os.devnull, f"{output}/1", f"{output}/2")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    run = subprocess.run

    def fork_or_run(command: list[str], **options: Any) -> Any:
        if command[0] != sys.executable:
            return run(command, **options)
        return run_python(*command[1:], environment=options["env"], cwd=Path.cwd(), address=address)

    subprocess.run = fork_or_run  # type: ignore[assignment]
    assert not {"attnzoo", "huggingface_hub", "transformers"} & sys.modules.keys()
    if hides:
        sys.modules["attnzoo"] = None  # type: ignore[assignment]
    is_safe = arguments[0] == "-P"
    program, *rest = arguments[is_safe:]
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if not is_safe:
        sys.path.insert(0, "" if program == "-c" else str(Path(program).parent))
    sys.argv = [program, *rest]
    if program != "-c":
        runpy.run_path(program, run_name="__main__")
        return
    del sys.argv[1]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(compile(rest[0], "<string>", "exec"), vars(main))


if __name__ == "__main__":
    for module in PRELOADED:
        import_module(module)
    gc.freeze()
    serve(sys.argv[1])
