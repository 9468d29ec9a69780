"""Debian's Prometheus on what a test runs, with the rules that are shipped, their times made short."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
RULES: Final = ROOT / "deploy" / "prometheus" / "sos.rules.yml"
SHORTER: Final = (
    (r"for: \d+s", "for: 1s"),
    (r"\[(10|5)m\]", "[15s]"),
    (r"\[30s\]", "[4s]"),
    ("> 900", "> 6"),
    ("> 16777216", "> 1048576"),
    ("> 100000", "> 100"),
)
"""What nobody could wait for in a test. All else of the rules is as it is shipped."""
START_SECONDS_MAX: Final = 600.0


class PrometheusServer:
    """One that runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=600) as reply:
            answer = json.load(reply)
        assert answer["status"] == "success", answer
        return answer["data"]

    def firing(self) -> set[str]:
        """Names of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait(self, condition: Callable[[set[str]], bool], seconds_max: float = 60.0) -> None:
        """Until the alerts that fire are as they should be."""
        deadline = time.monotonic() + seconds_max
        while not condition(firing := self.firing()):
            assert time.monotonic() < deadline, f"these fire: {sorted(firing)}"
            time.sleep(0.3)

    def fires(self, *names: str) -> None:
        self.wait(lambda firing: firing >= set(names))

    def clears(self, *names: str) -> None:
        self.wait(lambda firing: not firing.intersection(names))


@contextmanager
def prometheus(directory: Path, jobs: Mapping[str, list[str]]) -> Iterator[PrometheusServer]:
    """`jobs`: what to scrape, by name."""
    directory.mkdir()
    rules = RULES.read_text()
    for pattern, shorter in SHORTER:
        rules, count = re.subn(pattern, shorter, rules)
        assert count, pattern
    (directory / "rules.yaml").write_text(rules)
    scrapes = [{"job_name": name, "static_configs": [{"targets": targets}]} for name, targets in jobs.items()]
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": scrapes,
    }
    (directory / "prometheus.yaml").write_text(json.dumps(settings))  # which is YAML, too
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={directory}/prometheus.yaml", f"--storage.tsdb.path={directory}/data"]
    command += [f"--web.listen-address={address}", "--log.level=warn"]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server, deadline = PrometheusServer(address), time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                server.ask("alerts")
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, (directory / "log").read_text()
                assert time.monotonic() < deadline, (directory / "log").read_text()
                time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        process.wait(30)
