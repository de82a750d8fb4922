"""Broker processes to measure: ours as `roamq serve`, and others where they are installed.

Each is started on a free loopback port with a configuration of its own in a scratch folder, and is as generous as it
can be configured to be: no broker is to lose time to a limit that another one does not have.
"""

import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from roamq.core.errors import RoamqError
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import free_ports, local_network, serve_command

START_S_MAX: Final = 30.0
STOP_S_MAX: Final = 10.0
AMQTT: Final = "amqtt==0.11.3"


class Running(NamedTuple):
    """A broker that listens."""

    port: int
    process: "subprocess.Popen[bytes]"

    def cpu_s(self) -> float:
        """Processor time it has used, threads and processes and all, in user and system."""
        return _cpu_s(self.process.pid)


def _cpu_s(process: int) -> float:
    """Of a process, and of those that it has started and that run; not a number if it has ended."""
    folder = Path(f"/proc/{process}")
    try:
        fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        children = (folder / "task" / str(process) / "children").read_text().split()
    except OSError:
        return float("nan")
    own_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    of_children = [_cpu_s(int(child)) for child in children]
    return own_s + sum(used_s for used_s in of_children if not math.isnan(used_s))


class UnavailableError(RoamqError):
    """This broker is not available here; the benchmark says so and goes on without it."""


class BenchBroker(NamedTuple):
    """A broker that can be started."""

    name: str
    start: Callable[[Path], tuple[list[str], int]]
    """Scratch folder -> command and port; raises `UnavailableError`."""


def _roamq(durability: str) -> Callable[[Path], tuple[list[str], int]]:
    def start(folder: Path) -> tuple[list[str], int]:
        path = folder / "network.toml"
        path.write_text(local_network(1, durability=durability, records=folder / "records"))
        listener = load_network(path).brokers["b1"].listeners[0]
        return serve_command(path, "b1"), listener.port

    return start


def _mosquitto(folder: Path) -> tuple[list[str], int]:
    program = _program("mosquitto", "/usr/sbin")
    (port,) = free_ports(1)
    path = folder / "mosquitto.conf"
    path.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_type none\n"
        "max_queued_messages 0\nmax_inflight_messages 1024\nset_tcp_nodelay true\n"
    )
    return [program, "-c", str(path)], port


def _nats(folder: Path) -> tuple[list[str], int]:
    program = _program("nats-server", "/usr/sbin")
    port, own = free_ports(2)
    path = folder / "nats.conf"
    path.write_text(
        f'server_name: bench\nlisten: "127.0.0.1:{own}"\n'
        f'jetstream {{ store_dir: "{folder / "jetstream"}" }}\n'
        f'mqtt {{ listen: "127.0.0.1:{port}", max_ack_pending: 1024 }}\n'
    )
    return [program, "-c", str(path)], port


def _amqtt(folder: Path) -> tuple[list[str], int]:
    """In an environment of its own: it pins versions that are not ours."""
    (port,) = free_ports(1)
    home = folder / "venv"
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "pip"), "install", "--quiet", AMQTT],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UnavailableError(f"amqtt cannot be installed: {last}")
    path = folder / "amqtt.yaml"
    path.write_text(
        f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n"
        "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
    )
    return [str(home / "bin" / "amqtt"), "-c", str(path)], port


ROAMQ: Final = BenchBroker("roamq", _roamq("memory"))
ROAMQ_DURABLE: Final = BenchBroker("roamq durable", _roamq("process"))
MOSQUITTO: Final = BenchBroker("mosquitto", _mosquitto)
NATS: Final = BenchBroker("nats file store", _nats)
AMQTT_BROKER: Final = BenchBroker("amqtt", _amqtt)


@contextmanager
def running(candidate: BenchBroker, folder: Path) -> Iterator[Running]:
    """The broker, listening; it is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    command, port = candidate.start(folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_until_listening(candidate.name, process, port, folder / "log")
        yield Running(port, process)
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _wait_until_listening(name: str, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            raise RoamqError(f"{name} ended as it started; it said: {said}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.05)
    raise RoamqError(f"{name} does not listen after {START_S_MAX:.0f} s")


def _program(name: str, *more: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(more))
    if found is None:
        raise UnavailableError(f"{name} is not installed")
    return found
