"""Packages: brokers without Spark, a network that starts as it is, and the files for systemd and containers."""

import asyncio
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import paho.mqtt.client as paho
import pytest
import yaml
from click.testing import CliRunner
from paho.mqtt.enums import CallbackAPIVersion
from prometheus_client import generate_latest

from roamq.cli.main import cli
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import free_ports, local_network
from roamq.net.ops.metrics import described_metrics
from tests.net.live import python_path, running, write_network
from tests.support.waiting import WAIT_S, wait_until

ROOT = Path(__file__).parent.parent
PACKAGING = ROOT / "packaging"
WITHOUT_SPARK = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pyspark", "pandas", "py4j", "grpc", "deltalake"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from roamq.cli.main import main
main(sys.argv[1:])
"""


def roamq_without_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *arguments],
        capture_output=True,
        text=True,
        timeout=4 * WAIT_S,
        env={"PYTHONPATH": python_path(), "PATH": "/usr/bin:/bin"},
    )


def test_spark_is_an_extra_that_developers_get() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = [re.split(r"[\[<>=;]", one)[0] for one in project["dependencies"]]

    assert not {"pyspark", "pandas"} & set(names)
    assert {re.split(r"[\[<>=;]", one)[0] for one in extras["spark"]} == {"pyspark", "pandas", "deltalake"}
    assert "roamq[spark]" in extras["dev"]


@pytest.mark.slow
def test_every_command_explains_itself_without_spark() -> None:
    script = WITHOUT_SPARK.replace(
        "main(sys.argv[1:])",
        "from click.testing import CliRunner; from roamq.cli.main import COMMANDS, cli\n"
        "for name in COMMANDS:\n"
        "    result = CliRunner().invoke(cli, [name, '--help']); assert result.exit_code == 0, (name, result.output)",
    )
    environment = {"PYTHONPATH": python_path(), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=4 * WAIT_S, env=environment)


@pytest.mark.live
def test_brokers_and_the_simulator_work_without_spark(tmp_path: Path) -> None:
    up = roamq_without_spark("up", "--brokers", "1", "--for", "0.1", "--data", str(tmp_path), "--json")
    assert up.returncode == 0, up.stderr
    run = roamq_without_spark(
        *("simulate", "testbed", "--seed", "1", "--scheme", "standard", "--set", "duration_s=20")
    )
    assert run.returncode == 0 and "delivered" in run.stdout, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["simulate testbed --seeds 1 --out {0}", "demo --out {0}", "pipeline run --warehouse {0}"],
)
def test_a_command_that_needs_spark_says_what_to_install_and_begins_nothing(
    tmp_path: Path, command: str
) -> None:
    ended = roamq_without_spark(*command.format(tmp_path).split())
    assert ended.returncode == 2, ended.stderr
    assert "this needs Spark: pip install 'roamq[spark]'" in ended.stderr
    assert ended.stdout == ""


def test_init_writes_a_network_that_passes_its_check_and_is_never_overwritten(tmp_path: Path) -> None:
    net = tmp_path / "net"
    arguments = ["init", str(net), "--site", "north=10.0.0.1", "--site", "south=10.0.0.2", "--json"]
    made = CliRunner().invoke(cli, arguments)
    assert made.exit_code == 0, made.output
    answer = json.loads(made.output)
    text = (net / "network.toml").read_text()

    assert answer["password"] not in text and answer["console_token"] in text
    assert (net / "network.toml").stat().st_mode & 0o077 == 0
    for broker in ("north", "south"):
        check = CliRunner().invoke(cli, ["serve", answer["config"], "--broker", broker, "--check"])
        assert check.output == f"{answer['config']}: broker {broker} is fine\n"
    again = CliRunner().invoke(cli, arguments)
    assert again.exit_code == 2 and "exists already" in again.output
    assert (net / "network.toml").read_text() == text


def enters(config: Path, broker: str, user: str, password: str) -> bool:
    """Whether a client is let in, over TLS."""
    answers: list[bool] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="me")
    client.on_connect = lambda *said: answers.append(not said[3].is_failure)
    client.username_pw_set(user, password)
    client.tls_set(str(config.parent / "keys" / "ca.pem"), tls_version=ssl.PROTOCOL_TLS_CLIENT)
    client.connect("127.0.0.1", load_network(config).brokers[broker].listeners[0].port)
    end = time.monotonic() + WAIT_S
    while not answers and time.monotonic() < end:
        client.loop(0.1)
    client.disconnect()
    return answers[0]


@pytest.mark.live
def test_the_network_of_init_starts_lets_its_user_in_over_tls_and_grows(tmp_path: Path) -> None:
    """Every broker runs from a folder of its own, which holds what the page on installation says it gets."""
    made = json.loads(CliRunner().invoke(cli, ["init", str(tmp_path / "net"), "--json"]).output)
    path = Path(made["config"])
    text = path.read_text()
    for port, free in zip(re.findall(r"port = (\d+)", text), free_ports(9), strict=True):
        text = re.sub(rf"\b{port}\b", str(free), text)  # tests of several checkouts run on one machine
    path.write_text(text)
    brokers: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> None:
        host = tmp_path / f"host-{name}"
        (host / "keys").mkdir(parents=True)
        for file in (
            "network.toml",
            "operation.token",
            "keys/ca.pem",
            f"keys/{name}.pem",
            f"keys/{name}.key",
        ):
            shutil.copy(path.parent / file, host / file)
        serve = [sys.executable, "-m", "roamq.cli.main", "serve", str(host / "network.toml")]
        brokers.append(subprocess.Popen([*serve, "--broker", name, "--log-level", "ERROR"]))

    def is_whole() -> bool:
        status = CliRunner().invoke(cli, ["status", made["config"], "--json"])
        found = json.loads(status.output) if status.exit_code == 0 else []
        return bool(found) and all(link["is_up"] for one in found for link in one["links"])

    try:
        for name in ("b1", "b2", "b3"):
            start(name)
        wait_until(is_whole, "the start of the network")
        joined = CliRunner().invoke(cli, ["join", made["config"], "--broker", "b4", "--at", "b1"])
        assert joined.exit_code == 0, joined.output
        assert f"wrote {path.parent / 'keys' / 'b4.pem'}" in joined.output
        start("b4")
        wait_until(is_whole, "the arrival of the fourth broker")
        wait_until(lambda: enters(path, "b4", made["user"], made["password"]), "room at the new broker")
        assert not enters(path, "b4", made["user"], "wrong")
    finally:
        for process in brokers:
            process.send_signal(signal.SIGTERM)
        for process in brokers:
            process.wait(WAIT_S)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (PACKAGING / "systemd" / "roamq@.service").read_text()
    unit = tmp_path / "roamq@north.service"
    unit.write_text(text.replace("/opt/roamq/bin/roamq", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=WAIT_S
    )
    assert str(unit.name) not in checked.stderr, checked.stderr


def test_the_page_on_installation_makes_the_folders_that_the_unit_needs(tmp_path: Path) -> None:
    """Its command makes the folders of the network absolute, in a directory that systemd lets the broker write to."""
    net = tmp_path / "net"
    assert CliRunner().invoke(cli, ["init", str(net)]).exit_code == 0
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    (command,) = re.findall(r"^sed -i .*", page, re.MULTILINE)
    subprocess.run(
        ["sh", "-c", command.replace("/etc/roamq", str(net))], check=True, capture_output=True, timeout=WAIT_S
    )
    options = load_network(net / "network.toml").server_options("b1")
    assert str(options.storage.folder) == "/var/lib/roamq/data/b1"
    assert options.recording is not None and str(options.recording.folder) == "/var/lib/roamq/records"
    unit = (PACKAGING / "systemd" / "roamq@.service").read_text()
    assert "StateDirectory=roamq\n" in unit and "/etc/roamq/network.toml" in unit


def test_the_files_for_containers_name_what_exists() -> None:
    lines = (PACKAGING / "container" / "Containerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    assert all((ROOT / name).exists() for names in copied for name in names)
    compose = (PACKAGING / "container" / "compose.yaml").read_text()
    commands = re.findall(r"command: (\[.*\])", compose)
    sites = re.findall(r"--site (\w+)=(\w+)", compose)
    assert [json.loads(command)[3] for command in commands] == [name for name, _ in sites]
    assert all(name == host for name, host in sites)
    for service in yaml.safe_load(compose)["services"].values():
        # What init writes is for its owner alone, and lies beside the compose file, where paths begin.
        assert service["user"] == "${ROAMQ_USER:-0}" and service["volumes"] == ["./net:/var/lib/roamq/net"]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert "roamq init packaging/container/net --site north=north" in page


# --- the Grafana board and the alerts ----------------------------------------------------------------------------


def named_metrics(text: str) -> set[str]:
    """The metrics that an expression names, without the suffixes of histograms."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\broamq_[a-z_]+", text)}


def test_the_board_and_the_alerts_name_metrics_that_exist() -> None:
    known = {name: set(labels) for name, _, labels, _ in described_metrics()}
    board = json.loads((PACKAGING / "grafana" / "roamq.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((PACKAGING / "grafana" / "alerts.yaml").read_text())["groups"][0]["rules"]
    expressions += [rule["expr"] for rule in rules]

    assert len(expressions) > 20
    for expression in expressions:
        names = named_metrics(expression)
        assert names <= known.keys(), expression
        allowed = {"instance", "le", "job"}.union(*(known[name] for name in names))
        used = set(re.findall(r"[{,]\s*([a-z_]+)\s*=", expression))
        used |= {
            label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)
        }
        assert used <= allowed, expression
    shown = {name for expression in expressions for name in named_metrics(expression)}
    assert shown >= {"roamq_handoff_seconds", "roamq_alarm", "roamq_link_up", "roamq_records_total"}
    assert "http" not in json.dumps(board)


@pytest.mark.live
def test_a_broker_serves_every_metric_that_is_described(tmp_path: Path) -> None:
    """A board made of names that no broker serves would pass the test above."""

    async def look() -> str:
        network = write_network(tmp_path, local_network(2, records=tmp_path / "records"))
        async with running(network) as servers:
            return generate_latest(servers["b1"].observatory.registry).decode()

    served = asyncio.run(look())
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)", served, re.MULTILINE))
    described = {name: kind for name, kind, _, _ in described_metrics()}
    later = {
        "roamq_delay_p95_seconds",
        "roamq_utilisation",
        "roamq_messages_per_second",
        "roamq_full_in_seconds",
    }
    """What a broker knows when it has watched itself for a while; tests/net/ops/test_forecast.py looks at it then."""
    assert later < described.keys()
    assert kinds == {name: kind for name, kind in described.items() if name not in later}


# --- the Helm chart ----------------------------------------------------------------------------------------------

HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")


@needs_helm
def test_helm_accepts_the_chart_and_every_pod_is_a_broker_of_the_documented_network(tmp_path: Path) -> None:
    assert HELM is not None
    chart = str(PACKAGING / "helm" / "roamq")
    linted = subprocess.run([HELM, "lint", "--strict", chart], capture_output=True, text=True, timeout=WAIT_S)
    assert linted.returncode == 0, linted.stdout
    made = subprocess.run(
        [HELM, "template", "roamq", chart], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(made.stdout)}
    pods = objects["StatefulSet", "roamq"]["spec"]
    names = [f"roamq-{number}" for number in range(pods["replicas"])]
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    sites = re.findall(r"--site (roamq-\d)=(\S+)", page)
    assert sites == [(name, f"{name}.{pods['serviceName']}") for name in names]
    arguments = [word for name, host in sites for word in ("--site", f"{name}={host}")]
    result = CliRunner().invoke(cli, ["init", str(tmp_path / "net"), *arguments])
    assert result.exit_code == 0, result.output
    network = load_network(tmp_path / "net" / "network.toml")
    ports = {one["name"]: one["containerPort"] for one in pods["template"]["spec"]["containers"][0]["ports"]}
    for table in network.brokers.values():
        assert (table.listeners[0].port, table.link_port) == (ports["mqtt"], ports["link"])


def test_no_file_of_the_packages_names_a_registry() -> None:
    for path in PACKAGING.rglob("*"):
        if path.is_file():
            assert not re.search(
                r"\b(docker\.io|ghcr\.io|quay\.io|https?://(?!127\.0\.0\.1))", path.read_text()
            ), path
