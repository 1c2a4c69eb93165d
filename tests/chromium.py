"""A page in headless Chromium without a network, driven through a pipe by the browser's own protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run")
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "ArrowLeft": 37, "ArrowUp": 38, "Home": 36}
PATIENCE = 60  # seconds


class Browser:
    """One browser with one page.

    Attributes:
        requests: the addresses that the page has requested since it was opened
        errors: its errors and dialogs since then

    Raises:
        RuntimeError: Chromium is not installed, or a script of the page fails.
    """

    def __init__(self, width: int = 1400, height: int = 1000, is_dark: bool = False) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise RuntimeError("the tests of the pages need Chromium: apt-get install chromium")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (reads, self.writes), (self.reads, writes) = os.pipe(), os.pipe()
        script = f'exec 3<&{reads} 4>&{writes}; exec "$0" "$@"'  # the browser reads 3 and writes 4
        command = ["bash", "-c", script, program, *OPTIONS]
        command += [f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, pass_fds=(reads, writes), stdout=quiet, stderr=quiet)
        os.close(reads)
        os.close(writes)
        self.number, self.rest, self.session = 0, b"", ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", **OFFLINE)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive(method)
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
            if found.get("method") == "Network.requestWillBeSent":
                self.requests.append(found["params"]["request"]["url"])
            if found.get("method") in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
                self.errors.append(json.dumps(found["params"]))

    def _receive(self, method: str) -> dict[str, Any]:
        while b"\0" not in self.rest:
            if not select.select([self.reads], [], [], PATIENCE)[0]:
                raise RuntimeError(f"Chromium has not answered {method} for {PATIENCE} seconds")
            part = os.read(self.reads, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path, ready: str) -> None:
        """Load a page and wait until the expression ``ready`` is true."""
        self.requests.clear()
        self.errors.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        self.wait(ready)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of its promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "a script failed"))
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until the condition is true."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(f"(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"):
            if time.monotonic() > end:
                raise AssertionError(f"{condition}: {self.evaluate('document.body.innerText')}")
            time.sleep(0.02)

    def point(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Move the mouse to a place in an element, by shares of its width and height."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + x * box[2], y=box[1] + y * box[3])

    def press(self, key: str) -> None:
        """Press a named key of the keyboard."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], **text)

    def write(self, text: str) -> None:
        """Type into the element with the focus, letter by letter."""
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp")

    def pixels(self, selector: str) -> list[list[int]]:
        """The colours of a canvas, [red, green, blue] of each pixel, row by row."""
        flat = self.evaluate(
            f"(() => {{ const c = document.querySelector({json.dumps(selector)});"
            "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] })()"
        )
        return [flat[start : start + 3] for start in range(0, len(flat), 4)]

    def screenshot(self, path: Path) -> None:
        """Save a screenshot as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.writes)
        os.close(self.reads)
        self.profile.cleanup()
