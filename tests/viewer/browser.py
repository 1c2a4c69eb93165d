"""A page in headless Chromium, driven by its DevTools protocol over a websocket."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run")


class Browser:
    """One browser with one page. ``requests`` are the addresses that the page has asked for."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 1000) -> None:
        assert CHROMIUM is not None
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.loop = asyncio.new_event_loop()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.number = 0
        self.loop.run_until_complete(self._connect(profile / "DevToolsActivePort"))
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    async def _connect(self, port_file: Path) -> None:
        for _ in range(600):
            if port_file.exists() and port_file.read_text().count("\n"):
                break
            await asyncio.sleep(0.05)
        port = port_file.read_text().split("\n")[0]
        self.session = aiohttp.ClientSession()
        async with self.session.get(f"http://127.0.0.1:{port}/json") as response:
            pages = [target for target in await response.json() if target["type"] == "page"]
        self.socket = await self.session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        return self.loop.run_until_complete(asyncio.wait_for(self._call(method, params), 60))

    async def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": params})
        while True:
            message = json.loads((await self.socket.receive()).data)
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message.get("method") in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
                self.errors.append(json.dumps(message["params"]))

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, which may be a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def open(self, path: Path) -> None:
        """Load a page and wait until it is drawn."""
        self.requests.clear()
        self.errors.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.documentElement.dataset.state")

    def wait(self, expression: str) -> None:
        """Wait until the expression is true."""
        self.evaluate(
            "new Promise((done, fail) => { const start = Date.now(); const look = () => {"
            f"let found = null; try {{ found = {expression} }} catch {{}}"
            "if (found) done(); else if (Date.now() - start > 50000) fail(Error('timeout')); else setTimeout(look, 20)"
            "}; look() })"
        )

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
        """Press a key of the keyboard."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "ArrowLeft": 37, "ArrowUp": 38, "Home": 36}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def pixels(self, selector: str) -> list[list[int]]:
        """The colours of a canvas, [red, green, blue] of each pixel, row by row."""
        flat = self.evaluate(
            f"(() => {{ const c = document.querySelector({json.dumps(selector)});"
            "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] })()"
        )
        return [flat[start : start + 3] for start in range(0, len(flat), 4)]

    def close(self) -> None:
        self.loop.run_until_complete(self.socket.close())
        self.loop.run_until_complete(self.session.close())
        self.loop.close()
        self.process.terminate()
        self.process.wait()
