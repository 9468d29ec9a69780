"""The chart: rendered by the real helm, held against Kubernetes' own schemas, and what no schema says."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.deployed import COMMANDS, DEPLOY, program_help

CHART = DEPLOY / "helm" / "sos"
KUBERNETES = ("1.27", "1.30", "1.34")
VARIANTS = ("", "servers.replicas=1,service.replicas=1", "servers.replicas=5,servers.zones=true,keepFor=36h")

Manifest = dict[str, Any]


@functools.cache
def rendered(settings: str) -> tuple[Manifest, ...]:
    command = [str(COMMANDS / "helm"), "template", "trial", str(CHART), "--set", settings or "volume=payments"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return tuple(document for document in yaml.safe_load_all(done.stdout) if document)


def _one(kind: str, name: str, settings: str = "") -> Manifest:
    (found,) = (m for m in rendered(settings) if (m["kind"], m["metadata"]["name"]) == (kind, name))
    return found


def test_helm_has_nothing_to_say() -> None:
    done = subprocess.run([COMMANDS / "helm", "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("settings", VARIANTS)
def test_kubernetes_knows_every_field(settings: str, version: str) -> None:
    for manifest in rendered(settings):
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("settings", ["servers.replicas=2", "volume=a/b", "keepFor=soon", "nonsense=1"])
def test_what_cannot_be_is_refused(settings: str) -> None:
    command = [str(COMMANDS / "helm"), "template", "trial", str(CHART), "--set", settings]
    assert subprocess.run(command, capture_output=True, check=False, timeout=600).returncode != 0


def test_a_monitor_only_when_it_is_wanted() -> None:
    assert "ServiceMonitor" not in {manifest["kind"] for manifest in rendered("")}
    monitor = _one("ServiceMonitor", "trial-sos", "serviceMonitor.enabled=true")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    ports = [
        {port["name"] for port in manifest["spec"]["ports"]}
        for manifest in rendered("")
        if manifest["kind"] == "Service" and wanted <= manifest["metadata"]["labels"].items()
    ]
    assert len(ports) == 2
    assert all(endpoint["port"] in names for names in ports for endpoint in monitor["spec"]["endpoints"])


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("part", ["server", "journal"])
def test_pods_are_what_their_services_and_budgets_select(part: str, settings: str) -> None:
    labels = _one("StatefulSet", f"trial-sos-{part}", settings)["spec"]["template"]["metadata"]["labels"]
    selecting = [
        manifest["spec"]["selector"].get("matchLabels", manifest["spec"]["selector"])
        for manifest in rendered(settings)
        if manifest["kind"] in {"Service", "PodDisruptionBudget", "StatefulSet"}
        and manifest["metadata"]["name"] == f"trial-sos-{part}"
    ]
    assert len(selecting) >= 2
    assert all(selector.items() <= labels.items() for selector in selecting)


@pytest.mark.parametrize("part", ["server", "journal"])
def test_containers_have_no_rights_and_what_they_run_has_these_options(part: str) -> None:
    pod = _one("StatefulSet", f"trial-sos-{part}")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    program, *arguments = container["command"]
    said = program_help(program, "serve")
    for argument in arguments:
        if argument.startswith("--"):
            assert re.search(rf"{argument.partition('=')[0]}\b", said), argument
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claimed = {"data"} if part == "server" else set()
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claimed
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = _one("Service", f"trial-sos-{part}")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in service} == ports


def test_the_service_names_every_server() -> None:
    command = _one("StatefulSet", "trial-sos-journal", "servers.replicas=5")["spec"]["template"]["spec"]["containers"][
        0
    ]
    (servers,) = (word for word in command["command"] if word.startswith("--servers="))
    assert servers.count("trial-sos-server:7400") == 5
    assert "trial-sos-server-4.trial-sos-server:7400" in servers


def test_one_schema_for_what_is_set() -> None:
    """Every value of values.yaml is known to the schema that helm checks with."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(values) == set(schema) - {"global"}
    for name, value in values.items():
        if isinstance(value, dict):
            assert set(value) == set(schema[name]["properties"]), name
