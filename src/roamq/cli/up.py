"""`roamq up`: a network of brokers on this machine, one process each, until Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_table
from roamq.core.errors import RoamqError

START_S_MAX = 30.0
STOP_S_MAX = 15.0


@click.command()
@click.option("--brokers", type=click.IntRange(1, 64), default=3, show_default=True, help="How many.")
@click.option("--scheme", default="proactive", show_default=True, help="The mobility scheme.")
@click.option(
    "--durability",
    type=click.Choice(["memory", "process", "disk"]),
    default="process",
    show_default=True,
    help="What is acknowledged survives: nothing, a killed process, a power failure.",
)
@click.option(
    "--records", type=click.Path(file_okay=False, path_type=Path), help="Folder for records of what happens."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for sessions; kept when the network stops.  [default: a temporary one]",
)
@click.option("--port", type=int, default=0, help="First MQTT port; the others follow.  [default: free ones]")
@click.option("--for", "for_s", type=float, metavar="SECONDS", help="Stop after this time.")
@json_option
def command(
    brokers: int,
    scheme: str,
    durability: str,
    records: Path | None,
    data: Path | None,
    port: int,
    for_s: float | None,
    as_json: bool,
) -> None:
    """Start a full mesh of brokers on loopback, print their endpoints, and stop them all on Ctrl-C.

    \b
    Examples:
      roamq up
      roamq up --brokers 6 --scheme standard --records records
      mosquitto_sub -p PORT -i me -c -q 2 -t 'news/#'    (then again at another broker's port)
    """
    from roamq.net.config import load_network
    from roamq.net.local import local_network

    with tempfile.TemporaryDirectory(prefix="roamq-") as scratch:
        folder = data or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "network.toml"
        network = local_network(
            brokers,
            scheme=scheme,
            durability=durability,
            records=records.resolve() if records is not None else None,
            first_port=port,
        )
        path.write_text(network)
        path.chmod(0o600)
        loaded = load_network(path)
        processes = {name: _start(path, name) for name in loaded.brokers}
        try:
            rows = []
            for name, table in loaded.brokers.items():
                _wait_until_up(name, processes[name], table.metrics_port or 0)
                urls = [listener.url for listener in loaded.server_options(name).listeners]
                rows.append((name, *urls, f"http://127.0.0.1:{table.metrics_port}/metrics"))
            _print(rows, path, as_json=as_json)
            _wait(processes, for_s)
        finally:
            _stop(processes)


def _start(path: Path, name: str) -> "subprocess.Popen[bytes]":
    """In a process group of its own: Ctrl-C reaches us, and we stop the brokers."""
    arguments = [sys.executable, "-m", "roamq.cli.main", "serve", str(path), "--broker", name]
    return subprocess.Popen([*arguments, "--log-level", "WARNING"], start_new_session=True)


def _wait_until_up(name: str, process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RoamqError(f"broker {name} ended as it started, with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0) as answer:
                if not json.load(answer)["links_down"]:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RoamqError(f"broker {name} is not up after {START_S_MAX:.0f} s")


def _print(rows: list[tuple[Any, ...]], path: Path, *, as_json: bool) -> None:
    if as_json:
        keys = ("broker", "mqtt", "websocket", "metrics")
        click.echo(
            json.dumps({"config": str(path), "brokers": [dict(zip(keys, row, strict=True)) for row in rows]})
        )
    else:
        print_table(["broker", "MQTT", "WebSocket", "metrics"], rows)
        click.echo("Ctrl-C stops them all.")
    sys.stdout.flush()


def _wait(processes: "dict[str, subprocess.Popen[bytes]]", for_s: float | None) -> None:
    """Until somebody says stop, the time is over, or a broker falls."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    deadline = None if for_s is None else time.monotonic() + for_s
    while not stop.wait(0.2):
        if deadline is not None and time.monotonic() >= deadline:
            return
        for name, process in processes.items():
            if process.poll() is not None:
                raise RoamqError(f"broker {name} ended with exit code {process.returncode}")


def _stop(processes: "dict[str, subprocess.Popen[bytes]]") -> None:
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + STOP_S_MAX
    for process in processes.values():
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
