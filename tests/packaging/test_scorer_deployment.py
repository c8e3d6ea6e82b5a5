"""packaging/scorer and docker/Dockerfile.scorer name ports, paths, options, files and metrics that the server has."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from rl.common.outcomes import INFRA_ERROR, OUTCOMES
from rl.common.time_limits import SERVER_START_S
from rl.scorer.app import create_app
from rl.scorer.config import Settings
from rl.scorer.config_file import load_settings
from rl.scorer.options import parser
from tests.programs import REPOSITORY

FOLDER = REPOSITORY / "packaging" / "scorer"
UNIT = (FOLDER / "dph-scorer.service").read_text()
DOCKERFILE = (REPOSITORY / "docker" / "Dockerfile.scorer").read_text()
DEPLOYMENT, SERVICE = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
ENTRYPOINT = re.findall(r'^ENTRYPOINT \["(.*)"\]$', DOCKERFILE, re.MULTILINE)[0].split('", "')


def options_of(command: list[str]):
    assert Path(command[0]).name == "dph" and command[1] == "scorer"
    return parser().parse_args(command[2:])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(FOLDER / "scorer.yaml", sql={"database_path": tmp_path})


def test_kubernetes_fits_the_container_the_settings_and_the_server(settings: Settings) -> None:
    options = options_of([*ENTRYPOINT, *CONTAINER["args"]])
    assert (options.address, options.port) == (settings.ScorerServer.address, settings.ScorerServer.port)
    [port], [served] = CONTAINER["ports"], SERVICE["spec"]["ports"]
    assert {port["containerPort"], served["port"]} == {options.port} and served["targetPort"] == port["name"]
    assert SERVICE["spec"]["selector"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(options.port)
    paths = {route.path for route in create_app(settings, print, print).routes}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = CONTAINER[probe]["httpGet"]
        assert asked["path"] in paths and asked["port"] == port["name"]
    probe = CONTAINER["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= SERVER_START_S
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in CONTAINER["volumeMounts"]}
    assert {volume["name"] for volume in POD["volumes"]} == set(mounts)
    assert options.config == mounts["settings"] / "scorer.yaml"
    written = yaml.safe_load((FOLDER / "scorer.yaml").read_text())
    assert Path(written["Scorers"]["Scorer1"]["database_path"]) == mounts["databases"]
    assert str(options.workers) == CONTAINER["resources"]["limits"]["cpu"]
    assert POD["terminationGracePeriodSeconds"] > settings.ScorerServer.shutdown_seconds
    assert f"USER {POD['securityContext']['runAsUser']}\n" in DOCKERFILE


def test_the_unit_starts_the_server_and_waits_for_its_end(settings: Settings, tmp_path: Path) -> None:
    values = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    assert options_of(shlex.split(values["ExecStart"])).config == Path("/etc/dph-scorer.yaml")
    assert int(values["TimeoutStopSec"]) > settings.ScorerServer.shutdown_seconds
    # What confines the workers must not be what the unit forbids.
    filtered = values["SystemCallFilter"].split()
    assert {"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= set(filtered)


def test_the_alerts_are_about_metrics_that_the_server_has(settings: Settings) -> None:
    text = create_app(settings, print, print).state.metrics.text().decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    has = {name + ending for name, kind in kinds.items() for ending in ENDINGS[kind]}
    [group] = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    expressions = " ".join(rule["expr"] for rule in group["rules"])
    asked = set(re.findall(r"\bscorer_\w+", expressions))
    assert asked and asked - has == set()
    outcomes = " ".join(re.findall(r'outcome=~?"([^"]+)"', expressions)).replace("|", " ").split()
    assert {INFRA_ERROR, "gold_error"} <= set(outcomes) <= {*OUTCOMES, INFRA_ERROR}
    documented = (REPOSITORY / "docs" / "reference" / "scorer.md").read_text()
    assert set(re.findall(r'cause="(\w+)"', expressions)) == {"lost", "crashed"}
    assert "crashed, lost (killed from outside)" in documented
    assert all(rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in group["rules"])


ENDINGS = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
