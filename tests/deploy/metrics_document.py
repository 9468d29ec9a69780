"""docs/metrics.md from the code: every metric that a server, a service, a listener and a relay have.

python -m tests.deploy.metrics_document --write

Name, type and meaning come from processes that run; what to do is said here, and a metric of which nothing is said
here is a mistake.
"""

# ruff: noqa: E501 - a table, one row a line
from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from connectors.relay.exposition import RelayCollector
from tests.system.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "metrics.md"
RULES: Final = ROOT / "deploy" / "prometheus" / "sos.rules.yml"
DESCRIBES: Final = "-"
"""Nothing to do: it tells how much there is of something."""
LOG_LINES: Final = "raise the log's reader, or look for who makes so many lines"

TO_DO: Final = {
    # sos-server
    "sos_connections": DESCRIBES,
    "sos_sessions": DESCRIBES,
    "sos_connections_refused": "grows: raise `limits.connections_max`, or find who opens so many",
    "sos_appends": DESCRIBES,
    "sos_appended_bytes": DESCRIBES,
    "sos_read_bytes": DESCRIBES,
    "sos_refused": "look at the code: `AUTH` and `DENIED` are tokens, `NO_SPACE` and `QUOTA` room, `FENCED` an old owner",
    "sos_sync_seconds": "99th percentile above what the disk usually needs: who else writes there?",
    "sos_free_bytes": "keep less of the past, or give it a larger disk",
    "sos_log_kept_bytes": "near `storage.log_bytes_max`: copying to objects is stuck, the log says why",
    "sos_refusing_appends": "1: make room, or restart it if its log broke; its log says which",
    "sos_commits": DESCRIBES,
    "sos_commit_entries": DESCRIBES,
    "sos_log_bytes": DESCRIBES,
    "sos_copied_bytes": DESCRIBES,
    "sos_straight_bytes": DESCRIBES,
    "sos_failed_syncs": "look at the disk now",
    "sos_failed_copies": "look at the disk now",
    "sos_damaged_reads": "`sos-journal verify`, then `repair`; suspect the disk",
    "sos_namespaces": DESCRIBES,
    "sos_namespace_bytes": DESCRIBES,
    "sos_namespace_objects": DESCRIBES,
    "sos_connections_failed": "a mistake of the server itself: its log has the traceback, please report it",
    "sos_log_lines_lost": LOG_LINES,
    "sos_log_lines_left_out": LOG_LINES,
    "sos_start_time_seconds": "changes often: its log says why it ended",
    # sos-journal serve
    "sos_journal_request_seconds": "99th percentile of `put` grows: `sos_sync_seconds` of the servers says whether it is a disk",
    "sos_journal_refusals": "`damaged`, `lost`, `outcome_unknown`: look at the page; `fenced`: an old driver still runs",
    "sos_journal_gateway_bytes": DESCRIBES,
    "sos_journal_connections": DESCRIBES,
    "sos_journal_volume_owned": "0 everywhere: the services' logs say why; 1 in two places for long: one of them is cut off",
    "sos_journal_volume_epoch": "grows often: services take the volume from each other",
    "sos_journal_volume_written_lsn_bytes": "ahead of the acknowledged one and standing: too few machines follow",
    "sos_journal_volume_acknowledged_lsn_bytes": "stands while the written one does not: too few machines follow",
    "sos_journal_volume_oldest_lsn_bytes": "stands although retention is limited: may the token of the service delete?",
    "sos_journal_volume_files": DESCRIBES,
    "sos_journal_volume_tree_bytes": "near `--tree-bytes-max`: raise it, or delete checkpoints of queries that are over",
    "sos_journal_volume_may_lose": "0: bring machines back; negative: batches wait until you do",
    "sos_journal_volume_member_uncleaned": "1: the token of the service needs the right `delete` there, or disks fill",
    "sos_journal_volume_member_in_sync": "0: the page says why; lost for good: `sos-journal members replace`",
    "sos_journal_volume_member_lag_bytes": "grows: a slow disk or network there",
    "sos_journal_query_committed_seconds": "long ago: does the query run, has its source anything new? `sos-journal doctor`",
    "sos_journal_connections_failed": "a mistake of the service itself: its log has the traceback, please report it",
    "sos_journal_log_lines_lost": LOG_LINES,
    "sos_journal_log_lines_left_out": LOG_LINES,
    "sos_journal_start_time_seconds": "changes often: its log says why it ended",
    # sos-connector listen
    "sos_connector_messages": DESCRIBES,
    "sos_connector_connections": DESCRIBES,
    "sos_connector_credits": "0 for long: sources wait, `sos_connector_waiting` says for whom",
    "sos_connector_streams_open": DESCRIBES,
    "sos_connector_written_bytes": DESCRIBES,
    "sos_connector_commit_seconds": "as `sos_journal_request_seconds`",
    "sos_connector_next_sequence": "stands: no source sends anything",
    "sos_connector_oldest_sequence": "stands: a reader that is behind, or gone, keeps messages: `sos-connector readers`",
    "sos_connector_log_bytes": "grows without end: a reader that is gone keeps messages",
    "sos_connector_streams_known": DESCRIBES,
    "sos_connector_waiting_bytes": DESCRIBES,
    "sos_connector_reader_lag_messages": "grows: the reader is too slow, or does not run",
    "sos_connector_reader_lag_bytes": "grows: the reader is too slow, or does not run",
    "sos_connector_waiting": "1: `for` says whom to look at",
    # sos-connector relay
    "sos_relay_batches_committed": "stands: `sos_relay_sink_away`, or the query does not run",
    "sos_relay_batches_failed": "grows: its log says which sink refused what",
    "sos_relay_spool_bytes": "near `sos_relay_spool_bytes_max`: sinks are too slow for the query",
    "sos_relay_spool_bytes_max": DESCRIBES,
    "sos_relay_in_doubt": "1 for long: bring the sink back that is away",
    "sos_relay_votes_to_abort": "grows: a sink refuses batches, its own log says why",
    "sos_relay_sink_away": "1: start the sink again",
    "sos_relay_sink_bytes": DESCRIBES,
}
HEAD: Final = """\
# Metrics

Every metric, from the code (`python -m tests.deploy.metrics_document --write`; a test compares). `sos-server`,
`sos-journal serve`, `sos-connector listen` and `sos-connector relay` serve theirs with `--metrics HOST:PORT`, the first
three also at `--web`, for those with a token. Alerts on them are in
[deploy/prometheus](../deploy/prometheus/sos.rules.yml), a dashboard in [deploy/grafana](../deploy/grafana/sos.json).
"""
PARTS: Final = (
    ("sos-server", r"sos_(?!journal_|connector_|relay_)"),
    ("sos-journal serve", r"sos_journal_"),
    ("sos-connector listen", r"sos_connector_"),
    ("sos-connector relay", r"sos_relay_"),
)


def families(directory: Path) -> list[Metric]:
    """Of processes that run, with a volume and a listener, and of a relay without queries."""
    ports, module = [free_port() for _ in range(4)], [sys.executable, "-m"]
    server = f"127.0.0.1:{ports[3]}"
    commands = [
        ["sos_server", "--root", f"{directory}/server", "--listen", server],
        ["journal", "serve", "--volume", "v", "--create", "--servers", server, "--dir", f"{directory}/service"],
        ["connectors", "listen", "--volume", "i", "--embedded", "--dir", f"{directory}/listener"],
    ]
    found: dict[str, Metric] = {}
    with ExitStack() as stack:
        for command, port in zip(commands, ports, strict=False):
            listen = [] if command[0] == "sos_server" else ["--listen", "127.0.0.1:0"]
            words = [*module, *command, *listen, "--metrics", f"127.0.0.1:{port}"]
            log = stack.enter_context((directory / f"{port}.log").open("w"))
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            assert process.stdout is not None
            while not (line := process.stdout.readline()).startswith("ready"):
                assert line, (directory / f"{port}.log").read_text()
        for port in ports[:3]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as reply:
                found |= {family.name: family for family in text_string_to_metric_families(reply.read().decode())}
    relay: Any = SimpleNamespace(commits=0, failures=0, spool=SimpleNamespace(bytes=0, bytes_max=0), open_queries=())
    registry = CollectorRegistry()
    registry.register(RelayCollector(relay))
    found |= {family.name: family for family in registry.collect()}
    return [found[name] for name in sorted(found)]


def document(every: Iterable[Metric]) -> str:
    """The whole page."""
    known, rules = list(every), RULES.read_text()
    lines = [HEAD]
    for title, pattern in PARTS:
        lines += [f"## {title}", "| metric | type | meaning | what to do | alert |", "|---|---|---|---|---|"]
        for family in known:
            if re.match(pattern, family.name):
                lines.append(_row(family, rules))
        lines.append("")
    return "\n".join(lines)


def _row(family: Metric, rules: str) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    alerts = re.findall(r"- alert: (\w+)\n +expr: (.*?)(?:\n +for:|\n +labels:)", rules, re.DOTALL)
    named = ", ".join(alert for alert, expression in alerts if re.search(rf"\b{name}\b", expression)) or "-"
    meaning = family.documentation.rstrip(".").replace("|", "\\|")
    return f"| `{name}` | {family.type} | {meaning} | {TO_DO[family.name]} | {named} |"


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        text = document(families(Path(directory)))
    if "--write" in sys.argv:
        DOCUMENT.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
