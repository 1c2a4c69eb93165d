"""A page in headless Chromium, driven through a pipe by its own protocol; no driver and no library is needed."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Page:
    """A browser with one page, from a file, without a network.

    Raises:
        RuntimeError: there is no Chromium, or a script of the page fails.
    """

    def __init__(self, file: Path, width: int = 900, height: int = 900, is_dark: bool = False) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            raise RuntimeError("the tests of the page need Chromium: apt-get install chromium")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (reads, self.writes), (self.reads, writes) = os.pipe(), os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"]
        options += [f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"]
        script = f'exec 3<&{reads} 4>&{writes}; exec "$0" "$@"'  # the browser reads 3 and writes 4
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            ["bash", "-c", script, program, *options], pass_fds=(reads, writes), stdout=quiet, stderr=quiet
        )
        os.close(reads)
        os.close(writes)
        self.number, self.rest, self.session = 0, b"", ""
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.call("Network.enable")
        self.call("Network.emulateNetworkConditions", **offline)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.enable")
        self.call("Page.navigate", url=file.absolute().as_uri())
        while self.evaluate("document.readyState") != "complete" or self.evaluate("typeof window.ready") != "object":
            pass
        self.state = self.evaluate("window.ready")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                part = os.read(self.reads, 1 << 20)
                if not part:
                    raise RuntimeError("Chromium ended")
                self.rest += part
            answer, _, self.rest = self.rest.partition(b"\0")
            found = json.loads(answer)
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of its promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "a script failed"))
        return found["result"].get("value")

    def press(self, text: str) -> None:
        """Type into what has the focus, key by key."""
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", text=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp")

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.writes)
        os.close(self.reads)
        self.profile.cleanup()
