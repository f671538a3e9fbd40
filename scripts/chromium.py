"""Drive a headless Chromium through the pipe of its DevTools protocol: open pages, run
scripts, take pictures.

    with Browser() as browser:
        page = browser.open(Path("report.html"), width=1280)
        page.run("document.title")

Used by tests and benchmarks. Needs the command ``chromium``.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]
FLAGS += [
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """A headless Chromium with a profile of its own; every request that a page makes is
    recorded.
    """

    def __init__(self) -> None:
        command = shutil.which("chromium")
        if command is None:
            raise FileNotFoundError("chromium is not installed.")
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        reading, self._out = os.pipe()
        self._in, writing = os.pipe()
        shell = f'exec "$@" 3<&{reading} 4>&{writing}'
        arguments = [
            command,
            *FLAGS,
            f"--user-data-dir={self._profile.name}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *arguments],
            pass_fds=(reading, writing),
            stderr=subprocess.DEVNULL,
        )
        os.close(reading)
        os.close(writing)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.call("Browser.close")
        self._process.wait(timeout=30)
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def call(
        self, method: str, session: str | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            content = os.read(self._in, 1 << 16)
            if not content:
                raise RuntimeError("chromium has ended.")
            self._rest += content
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def open(
        self, path: Path, width: int = 1280, height: int = 900, ready: str = "true"
    ) -> "Tab":
        """Open a file and wait until an expression is true in it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        tab = Tab(self, session, width, height)
        for domain in ("Page", "Network", "Runtime"):
            tab.call(f"{domain}.enable")
        tab.set_size(width, height)
        tab.call("Page.navigate", url=path.absolute().as_uri())
        tab.wait(f'document.readyState === "complete" && ({ready})')
        return tab


class Tab:
    """A page in the browser."""

    def __init__(self, browser: Browser, session: str, width: int, height: int) -> None:
        self._browser, self._session = browser, session
        self.width, self.height = width, height

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, self._session, **parameters)

    def set_size(self, width: int, height: int) -> None:
        """Set the size of the window, in CSS pixels."""
        self.width, self.height = width, height
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def run(self, expression: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(
                details.get("exception", {}).get("description", details["text"])
            )
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {seconds:g} s: {expression}")
            time.sleep(0.02)

    def click(self, x: float, y: float) -> None:
        """Click with the mouse at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag with the mouse."""
        self.call(
            "Input.dispatchMouseEvent",
            type="mousePressed",
            x=start[0],
            y=start[1],
            button="left",
            clickCount=1,
        )
        self.call(
            "Input.dispatchMouseEvent",
            type="mouseMoved",
            x=end[0],
            y=end[1],
            button="left",
            buttons=1,
        )
        self.call(
            "Input.dispatchMouseEvent",
            type="mouseReleased",
            x=end[0],
            y=end[1],
            button="left",
            clickCount=1,
        )

    def press(self, key: str) -> None:
        """Press a key, such as ``ArrowDown`` or ``Enter``."""
        codes = {
            "Enter": 13,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
            "Tab": 9,
        }
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )

    def type_text(self, text: str) -> None:
        """Type text into the focused field."""
        self.call("Input.insertText", text=text)

    def give_files(self, selector: str, paths: list[Path]) -> None:
        """Choose files in a field for files."""
        document = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=document, selector=selector)[
            "nodeId"
        ]
        self.call(
            "DOM.setFileInputFiles",
            nodeId=node,
            files=[str(path.absolute()) for path in paths],
        )

    def download(self, selector: str, path: Path, seconds: float = 30.0) -> Path:
        """Click an element that saves a file, and return the path of the file, whose
        name must be that of ``path``.
        """
        path.unlink(missing_ok=True)
        self.call(
            "Page.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(path.parent.absolute()),
        )
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        end = time.monotonic() + seconds
        while not path.is_file():
            if time.monotonic() > end:
                raise TimeoutError(f"{path.name} was not saved within {seconds:g} s.")
            time.sleep(0.02)
        return path

    def take_picture(self, out: Path, selector: str | None = None) -> None:
        """Write a PNG of the whole page, or of one element."""
        element = (
            f"document.querySelector({json.dumps(selector)})"
            if selector
            else "document.documentElement"
        )
        box = self.run(
            f"(() => {{ const b = {element}.getBoundingClientRect(); "
            "return {x: b.left + scrollX, y: b.top + scrollY, width: b.width, height: b.height}; })()"
        )
        picture = self.call(
            "Page.captureScreenshot",
            clip=box | {"scale": 1},
            captureBeyondViewport=True,
        )
        out.write_bytes(base64.b64decode(picture["data"]))

    def print_pdf(self, out: Path) -> None:
        """Write the page as it is printed, as PDF."""
        out.write_bytes(
            base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
        )

    def list_requests(self) -> list[str]:
        """Return the addresses that the page asked for, without data inside
        the page.
        """
        own = [
            event
            for event in self._browser.events
            if event.get("sessionId") == self._session
        ]
        sent = [
            event["params"]["request"]["url"]
            for event in own
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith(("data:", "blob:"))]

    def list_errors(self) -> list[str]:
        """Return exceptions and error messages of the page's scripts."""
        own = [
            event
            for event in self._browser.events
            if event.get("sessionId") == self._session
        ]
        thrown = [
            event["params"]["exceptionDetails"]
            for event in own
            if event["method"] == "Runtime.exceptionThrown"
        ]
        return [
            details.get("exception", {}).get("description", details["text"])
            for details in thrown
        ]
