"""`roamq serve`, `up`, `keys`, `password`, `drain`: what they say and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.clients.passwords import verify_password
from roamq.net.ops.configuration import NetworkConfig, load_network, parse_network
from roamq.net.ops.local import local_network
from tests.support.waiting import WAIT_S, wait_until

ROOT = Path(__file__).parent.parent.parent


def test_the_configuration_in_the_documentation_is_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "live.md").read_text(), re.DOTALL)
    text, classes, list_of_topics = blocks
    other = '\n[brokers.south]\nhost = "10.0.0.2"\nlink_port = 7001\n'
    (tmp_path / "keys").mkdir()
    for name in ("north.pem", "north.key"):
        (tmp_path / "keys" / name).touch()
    (tmp_path / "operator.token").write_text("0123456789abcdef")

    hashed = CliRunner().invoke(cli, ["password", "--password", "sesame"]).output.strip()
    network = parse_network(text.replace("scrypt$...", hashed) + other, "docs", tmp_path)

    users = f'\n[access.users]\nfleet = "{hashed}"\n[storage]\nfolder = "data"\n[brokers.north]\n'
    some = parse_network(classes + users, "docs", tmp_path)
    assert isinstance(some, NetworkConfig)
    assert [one["name"] for one in some.network.classes] == ["vehicles", "vans"]
    declared = parse_network(
        text.replace("[brokers.north]\n", list_of_topics).replace("scrypt$...", hashed) + other,
        "docs",
        tmp_path,
    )
    assert isinstance(declared, NetworkConfig)
    assert declared.brokers["north"].publishes == ["north/#", "alarms/+"]
    assert isinstance(network, NetworkConfig)
    assert [listener.url for listener in network.server_options("north").listeners] == [
        "mqtt://0.0.0.0:1883",
        "mqtts://0.0.0.0:8883",
        "ws://127.0.0.1:8080/mqtt",
    ]


def test_serve_checks_a_configuration_and_names_the_mistake(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2, scheme="standard"))
    fine = CliRunner().invoke(cli, ["serve", str(path), "--broker", "b1", "--check"])
    assert (fine.exit_code, fine.output) == (0, f"{path}: broker b1 is fine\n")

    path.write_text(local_network(2, scheme="standard").replace("durability", "durabilty"))
    wrong = CliRunner().invoke(cli, ["serve", str(path), "--broker", "b1", "--check"])
    assert wrong.exit_code == 2
    assert "storage.durabilty: unknown field; did you mean 'durability'?" in wrong.output


def test_keys_are_made_once(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2, scheme="standard"))
    arguments = ["keys", str(path), "--out", str(tmp_path / "keys"), "--json"]

    first = json.loads(CliRunner().invoke(cli, arguments).output)
    again = json.loads(CliRunner().invoke(cli, arguments).output)

    names = [Path(name).name for name in first["written"]]
    assert names == ["ca.pem", "ca.key", "b1.pem", "b1.key", "b2.pem", "b2.key"]
    assert again == {"written": []}


def test_a_password_is_hashed() -> None:
    hashed = CliRunner().invoke(cli, ["password", "--password", "sesame"]).output.strip()

    assert verify_password(b"sesame", hashed)


def test_drain_says_when_no_broker_answers(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(local_network(2, scheme="standard"))

    result = CliRunner().invoke(cli, ["drain", str(path), "--broker", "b1"])

    assert result.exit_code == 1
    assert "no broker answers" in result.output


class Stranger(BaseHTTPRequestHandler):
    """A program that is no broker, and answers at a broker's port."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as it is called there
        pass


@pytest.fixture
def strange_network(tmp_path: Path) -> Iterator[Path]:
    """The file of a network of one broker, at whose port a stranger answers."""
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = local_network(1, scheme="standard")
        path = tmp_path / "network.toml"
        path.write_text(re.sub(r"metrics_port = \d+", f"metrics_port = {server.server_port}", text))
        yield path
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status",), "no broker answers on this host"),
        (("clients", "--json"), "no broker answers on this host"),
        (("where", "car"), "no broker answers on this host"),
        (("kick", "car"), "no broker answers on this host"),
        (("reload",), "no broker answers on this host"),
        (("drain", "--broker", "b1"), "is no broker"),
        (("leave", "--broker", "b1"), "is no broker"),
    ],
    ids=str,
)
def test_a_stranger_that_answers_at_the_port_is_not_taken_for_a_broker(
    words: tuple[str, ...], said: str, strange_network: Path
) -> None:
    result = CliRunner().invoke(cli, [*words, str(strange_network)])

    assert result.exit_code == 1
    assert said in result.output
    assert result.stdout == ""


def test_up_does_not_take_another_program_for_its_broker(strange_network: Path) -> None:
    """A second `roamq up` of the same file printed the endpoints of the first one, and called them its own."""
    result = CliRunner().invoke(cli, ["up", str(strange_network)])

    assert result.exit_code == 2
    assert "brokers.b1.metrics_port: " in result.output
    assert "is taken; is the network up already?" in result.output


def up(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "roamq.cli.main", "up", *arguments, "--scheme", "standard", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.live
def test_up_prints_endpoints_serves_and_stops_them_all(tmp_path: Path) -> None:
    process = up("--brokers", "2", "--data", str(tmp_path))
    try:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        assert [broker["broker"] for broker in found["brokers"]] == ["b1", "b2"]
        drained = CliRunner().invoke(cli, ["drain", found["config"], "--broker", "b1"])
        assert drained.output.endswith("0 of 0 sessions have moved away from b1\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()
    # Both stopped gracefully: each left a snapshot.
    assert len(list(tmp_path.glob("data/*/*.snapshot"))) == 2


STOPPED_BEFORE = """
import os, signal, sys
from roamq.cli import up
from roamq.cli.main import main

function = up.{function}

def stop_first(*arguments, **options):
    os.kill(os.getpid(), signal.{signal})
    return function(*arguments, **options)

up.{function} = stop_first
sys.argv = ["roamq", "up", "--brokers", "1", "--scheme", "standard", "--data", sys.argv[1]]
main()
"""
"""`roamq up` that is asked to stop just before it calls one of its functions."""


@pytest.mark.live
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("function", "code"), [("_start", 130), ("_print", 0)])
def test_up_may_be_stopped_at_any_moment(name: str, function: str, code: int, tmp_path: Path) -> None:
    """Whoever has read the endpoints may stop the network, with exit code 0; before that the start was interrupted."""
    program = STOPPED_BEFORE.format(signal=name, function=function)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )

    assert ended.returncode == code, ended.stderr


@pytest.mark.live
@pytest.mark.parametrize("processes", [1, 2])
def test_brokers_stop_by_themselves_when_up_is_killed(processes: int, tmp_path: Path) -> None:
    process = up("--brokers", "1", "--processes", str(processes), "--data", str(tmp_path))
    try:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()
    ports = [int(broker["mqtt"].rpartition(":")[2]) for broker in found["brokers"]]
    snapshots = tmp_path / "data"
    wait_until(lambda: not any(map(answers, ports)), "the end of the brokers")
    wait_until(lambda: len(list(snapshots.glob("*/*.snapshot"))) == processes, "their snapshots")


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.live
@pytest.mark.parametrize("occupied", ["listener", "link", "metrics"])
def test_a_broker_with_keys_says_which_port_is_in_use_and_ends(tmp_path: Path, occupied: str) -> None:
    """The other broker answers its calls meanwhile: a link that comes up must not keep the process from ending."""
    path = tmp_path / "network.toml"
    text = re.sub("secret = .*", 'keys = "keys"', local_network(2, scheme="standard"))
    path.write_text(text)
    CliRunner().invoke(cli, ["keys", str(path), "--out", str(tmp_path / "keys")])
    network = load_network(path)
    table = network.brokers["b1"]
    ports = {"listener": table.listeners[1].port, "link": table.link_port, "metrics": table.metrics_port}
    serve = [sys.executable, "-m", "roamq.cli.main", "serve", str(path), "--broker"]
    other = subprocess.Popen([*serve, "b2", "--log-level", "ERROR"])
    try:
        wait_until(lambda: answers(network.brokers["b2"].link_port), "the link port of the other broker")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", ports[occupied] or 0))
            taken.listen()
            ended = subprocess.run([*serve, "b1"], capture_output=True, text=True, timeout=WAIT_S)
    finally:
        other.terminate()
        other.wait()
    assert ended.returncode == 2
    where = {"listener": "listener ws://", "link": "b1.link_port", "metrics": "b1.metrics_port"}
    assert where[occupied] in ended.stderr and "in use" in ended.stderr
