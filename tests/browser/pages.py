"""Headless Chromium as people use it: Debian's, driven by Debian's driver, without a word to anybody else."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parents[2]
AXE: Final = ROOT / "build" / "axe-core-4.14.1.min.js"
WAIT_SECONDS_MAX: Final = 600.0
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

needs_browser: Final = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver") and AXE.exists()), reason="tools/browser was not run"
)


class Page:
    """One browser with one page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, block: str = "") -> str:
        """What a person reads in a block (`safe`, `queries` …), or everywhere."""
        selector = f"#block-{block}" if block else "body"
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found[0].text if found else ""

    def wait(self, condition: Callable[[], object], seconds_max: float = WAIT_SECONDS_MAX) -> float:
        """How many seconds it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < seconds_max, self.text()[:3000]
            time.sleep(0.05)
        return time.monotonic() - began

    def show(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """As on a screen of this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def violations(self) -> list[str]:
        """What axe-core finds: contrast, labels, roles."""
        self.run(AXE.read_text(encoding="utf-8"))
        self.driver.set_script_timeout(60)
        found = self.driver.execute_async_script(
            "axe.run().then(result => arguments[0](JSON.stringify(result.violations)))"
        )
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in json.loads(found)
        ]

    def requests(self) -> list[str]:
        """Every address that the page has asked since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]  # type: ignore[no-untyped-call]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        own_pages = ("chrome", "about:", "data:")  # of the browser, before there is another one
        return [one["request"]["url"] for one in sent if not one["documentURL"].startswith(own_pages)]

    def complaints(self) -> list[str]:
        """What the browser complains of: mistakes of the script, a policy that was broken."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
            if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"]
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser that nobody has used before."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.execute_cdp_cmd(
            "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
        )
        yield Page(driver)
    finally:
        driver.quit()
