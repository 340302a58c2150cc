"""Debian's Chromium without a window, driven by its own driver through the WebDriver protocol."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Browser", "browser", "missing"]

PATIENCE_S = 120.0
_LOOK_S = 0.2


def missing() -> str | None:
    """Return what is not installed; ``None`` where nothing is missing."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed; make test-page does that" if absent else None


class Browser:
    """One tab."""

    def __init__(self, driver: str, session: str) -> None:
        self._session = f"{driver}/session/{session}"

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self._ask("url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script's body in the page, and return what it returns."""
        return self._ask("execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, what: str, *arguments: object) -> Any:
        """Run a script again and again until it returns something true, and return that."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(_LOOK_S)
        raise AssertionError(f"not within {PATIENCE_S:g} s: {what}")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def press(self, key: str) -> None:
        """Press and release a key, whatever has the focus."""
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._ask("actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def resize(self, width: int, height: int) -> None:
        """Make the window so large."""
        self._ask("window/rect", {"width": width, "height": height})

    def emulate(self, command: str, parameters: dict[str, Any]) -> None:
        """Give a command of Chromium's own, such as to emulate a phone or the dark."""
        self._ask("goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self._ask("screenshot", None)))

    def complaints(self) -> list[str]:
        """Return what the console has complained about since the last call."""
        entries = self._ask("se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Return every address that was asked for since the last call."""
        found = []
        for entry in self._ask("se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                params = message["params"]
                found.append(params["request"]["url"] if "request" in params else params["url"])
        return found

    def _ask(self, path: str, body: dict[str, Any] | None) -> Any:
        return _sent(f"{self._session}/{path}", body)


@contextmanager
def browser(*, width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """Start a browser, and end it with all its processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    driver = f"http://127.0.0.1:{port}"
    try:
        _await_driver(driver)
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            f"--window-size={width},{height}",
        ]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = _sent(f"{driver}/session", {"capabilities": {"alwaysMatch": wanted}})
        try:
            yield Browser(driver, made["sessionId"])
        finally:
            _sent(f"{driver}/session/{made['sessionId']}", None, method="DELETE")
    finally:
        process.terminate()
        process.wait(60)


def _await_driver(driver: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if _sent(f"{driver}/status", None)["ready"]:
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(_LOOK_S)
    raise AssertionError("the browser's driver does not start")


def _sent(url: str, body: dict[str, Any] | None, *, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.loads(response.read())["value"]
    except urllib.error.HTTPError as error:
        fields = json.loads(error.read())["value"]
        raise AssertionError(f"{fields['error']}: {fields['message']}") from None
