"""Every block of the page with what a running Spark query has made, as whoever has started it sees it.

SOS_SCREENSHOTS=docs/page keeps what was seen: light, dark, and on a phone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.pages import browser, needs_browser

PROFILES = re.compile(r"export SOS_PROFILES=(\S+);")
NOTICE = re.compile(r"sos: the page of volume 'payments': (http://127\.0\.0\.1:\d+/) .*: cat (\S+)\)")
SHOTS = (("light", 1200, False), ("dark", 1200, True), ("phone", 320, False))


@needs_browser
@pytest.mark.spark
def test_the_page_of_a_running_query(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.browser.drive_page", str(tmp_path / "volume")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver:
        assert driver.stderr is not None
        assert driver.stdin is not None
        told = ""
        while not ((address := NOTICE.search(told)) and (profiles := PROFILES.search(told))):
            line = driver.stderr.readline()
            assert line, told
            told += line
        reading = threading.Thread(target=driver.stderr.read, daemon=True)
        reading.start()
        url, token = address[1], Path(address[2]).read_text().strip()
        with browser(tmp_path / "profile") as page:
            page.driver.get(url)
            page.wait(lambda: "A token is needed" in page.text())
            page.driver.switch_to.active_element.send_keys(token, Keys.ENTER)
            page.wait(lambda: "totals" in page.text("queries"), 120)
            page.wait(lambda: len(re.findall(r"\d+ Commands|Commands", page.text("batches"))) >= 10, 120)
            assert "No: there is only one copy" in page.text("safe")
            page.wait(lambda: "all is well" in page.text("queries"), 60)
            assert "local-" in page.text("queries")  # the application that holds it
            assert "Back to" in page.text("past")
            prove_a_restore(profiles[1])
            page.wait(lambda: "Last proven restore: " in page.text("past"), 60)
            page.wait(lambda: "Length of batches of totals" in page.text("pace"), 60)
            page.wait(lambda: "stateStoreSave" in page.text("state"), 60)
            assert re.search(r"totals\s+[\d.]+ [KM]iB\s+\d+", page.text("room"))
            assert "claim" in page.text("events")
            assert not page.violations()
            assert not page.complaints()
            if place := os.environ.get("SOS_SCREENSHOTS"):
                page.wait(lambda: "Not enough yet" not in page.text("pace"), 60)
                for name, width, is_dark in SHOTS:
                    page.show(width=width, height=1600, dark=is_dark)
                    page.driver.save_screenshot(f"{place}-{name}.png")
        driver.stdin.close()
        driver.wait(60)


def prove_a_restore(profiles: str) -> None:
    """As somebody at another terminal does who has copied the line that the driver prints."""
    command = [sys.executable, "-m", "journal", "verify", "payments", "--restore"]
    done = subprocess.run(command, env=os.environ | {"SOS_PROFILES": profiles}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "into scratch: all equal" in done.stdout
