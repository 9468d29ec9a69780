"""The page in a real browser, over real servers: what it says while machines die, and who can read it."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from sos_client.serving.access import Right, append_token, new_token
from tests.browser.pages import ROOT, browser, needs_browser
from tests.system.ports import free_port
from tests.system.service_process import VOLUME, running_cluster
from tests.system.test_web import run_batches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.pages import Page
    from tests.system.service_process import Cluster

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.alone]
WIDTHS = (320, 1200)


async def test_what_a_person_sees_while_machines_come_and_go(tmp_path: Path) -> None:
    port = free_port()
    async with running_cluster(tmp_path, flags=["--web", f"127.0.0.1:{port}"]) as cluster:
        await run_batches(cluster, 25)

        def look() -> None:
            with browser(tmp_path / "profile") as page:
                page.driver.get(f"http://127.0.0.1:{port}/")
                machines_come_and_go(page, cluster)
                readable_everywhere(page)
                with_the_keyboard_alone(page)
                copied_commands_run(page, tmp_path)
                asked = [url for url in page.requests() if not url.startswith("data:")]
                assert asked
                assert not [url for url in asked if not url.startswith(f"http://127.0.0.1:{port}/")]
                assert not page.complaints()
                gone_is_said(page, cluster)

        await trio.to_thread.run_sync(look)


def machines_come_and_go(page: Page, cluster: Cluster) -> None:
    page.wait(lambda: "Yes: one more machine may be lost" in page.text("safe"))
    page.wait(lambda: "all is well" in page.text("queries"))
    assert "24" in page.text("queries")
    assert "app-1" in page.text("queries")
    assert "Back to" in page.text("past")
    assert "Length of batches of q1" in page.text("pace")
    assert "the log with its past" in page.text("room")
    assert "25" in page.text("state")
    assert "volume taken over" in page.text("events")
    assert "claim" in page.text("events")
    dead = cluster.servers[0]
    dead.kill()
    assert page.wait(lambda: "Not without a pause" in page.text("safe")) < 10
    assert "not connected" in page.text("safe")
    dead.start()
    page.wait(lambda: "Yes: one more machine may be lost" in page.text("safe"))


def readable_everywhere(page: Page) -> None:
    for dark in (False, True):
        for width in WIDTHS:
            page.show(width=width, dark=dark)
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert not page.violations()
    page.run("document.documentElement.style.filter = 'grayscale(1)'")
    assert "✓ in sync" in page.text("safe")  # a word and a sign, not a colour alone


def with_the_keyboard_alone(page: Page) -> None:
    page.show(width=1200)
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    keyboard = page.driver.switch_to.active_element
    reached = []
    for _ in range(60):
        keyboard = page.driver.switch_to.active_element
        keyboard.send_keys(Keys.TAB)
        reached.append(page.run("return document.activeElement.textContent"))
        if reached[-1] == "Commands":
            break
    assert reached[0] == "To the content"
    assert reached[-1] == "Commands"
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    time.sleep(2.5)  # the page is drawn again meanwhile: what is open and where one is must stay
    assert page.run("return document.activeElement.textContent") == "Commands"
    page.driver.switch_to.active_element.send_keys(Keys.TAB)
    assert page.run("return document.activeElement.textContent") == "Copy"
    outline = page.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def copied_commands_run(page: Page, place: Path) -> None:
    (place / "elsewhere").mkdir()
    page.driver.set_script_timeout(10)
    for verb in ("fork", "restore", "ls"):
        selector = f"details[open] button[data-copy^='sos-journal {verb} ']"
        page.driver.find_element(By.CSS_SELECTOR, selector).click()
        page.wait(partial(_says, page, selector, "Copied"))
        command = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        words = shlex.split(command)
        assert words[0] == "sos-journal"
        done = subprocess.run(
            [sys.executable, "-m", "journal", *words[1:]],
            cwd=place / "elsewhere",
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin", "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert list((place / "elsewhere").glob("q1-batch-*/commits/*"))
    page.wait(lambda: "q1-batch-" in page.text("queries"))


def _says(page: Page, selector: str, text: str) -> bool:
    return page.driver.find_element(By.CSS_SELECTOR, selector).text == text


def gone_is_said(page: Page, cluster: Cluster) -> None:
    cluster.service.kill()
    assert page.wait(lambda: "Gone: nothing was heard since" in page.text()) < 3
    assert "✕ gone" in page.driver.title
    assert "in sync" in page.text("safe")  # as it was then
    assert not page.violations()
    cluster.service.start()
    page.wait(lambda: "Gone" not in page.text())
    page.wait(lambda: "Yes: one more machine may be lost" in page.text("safe"))


def test_a_token_is_asked_for_and_kept_in_memory_only(tmp_path: Path) -> None:
    tokens, port = tmp_path / "tokens.toml", free_port()
    token, grant = new_token(name="reader", namespaces=(VOLUME,), rights=frozenset(Right), expires=None)
    append_token(tokens, grant)
    command = [sys.executable, "-m", "sos_server", "--root", str(tmp_path / "root"), "--listen", "127.0.0.1:0"]
    command += ["--web", f"127.0.0.1:{port}", "--tokens", str(tokens)]
    log = tmp_path / "server.log"
    with log.open("w") as file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("ready")
            with browser(tmp_path / "profile") as page:
                page.driver.get(f"http://127.0.0.1:{port}/")
                page.wait(lambda: "A token is needed" in page.text())
                assert not page.violations()
                page.driver.switch_to.active_element.send_keys("f" * 64, Keys.ENTER)
                page.wait(lambda: "this server does not know the token" in page.text())
                page.driver.switch_to.active_element.send_keys(token, Keys.ENTER)
                page.wait(lambda: "Can it keep what it is sent?" in page.text())
                kept = "return JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}])"
                assert token not in page.run(kept)
                assert token not in page.run("return document.documentElement.outerHTML")
                assert not [url for url in page.requests() if token in url]
                page.driver.refresh()
                page.wait(lambda: "A token is needed" in page.text())
        finally:
            server.terminate()
    assert token not in log.read_text()
