"""A headless Chromium for tests of pages, driven over its own protocol; no driver program is needed."""

import base64
import itertools
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.waiting import WAIT_S, wait_until

FOUND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser, if there is one."""
QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Options of a browser that shows nothing on a screen and speaks to nobody but the page's own server."""


class Page:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Page.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(timeout=WAIT_S))
            if said.get("id") == number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result
            if said.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(said["params"]["exceptionDetails"])[:500])
            elif said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.errors.append(said["params"]["entry"]["text"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.run(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''"))

    def wait_for(self, script: str) -> None:
        """Until the expression is true."""
        wait_until(lambda: bool(self.run(script)), script)

    def click(self, selector: str) -> None:
        """A real click of the mouse, in the middle of what the selector finds."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(f"{where} !== null && {where}.checkVisibility()")
        x, y = self.run(
            f"(() => {{ const e = {where}; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """A key of the keyboard: a letter, or Enter, Tab, Escape."""
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key)
        text = "\r" if key == "Enter" else key if code is None else ""
        more = {} if code is None else {"windowsVirtualKeyCode": code, "code": key}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}), **more
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def resize(self, width: int, height: int, *, scale: float = 1.0) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def processor_s(self) -> float:
        """Processor time that the page's main thread has used for its tasks since this was first asked."""
        self.call("Performance.enable", timeDomain="threadTicks")
        found = self.call("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A browser of its own, with one tab."""
    assert FOUND is not None
    process = subprocess.Popen(
        [
            *(FOUND, *QUIET, "--remote-debugging-port=0"),
            *(f"--user-data-dir={folder / 'profile'}", "about:blank"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ports = folder / "profile" / "DevToolsActivePort"
        wait_until(lambda: ports.exists() and bool(ports.read_text()), "the start of the browser")
        port = ports.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=WAIT_S) as answer:
            tabs = json.load(answer)
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        with connect(address, max_size=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(WAIT_S)
