"""`roamq up`: a network of brokers on this machine, one process each, until Ctrl-C."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from roamq.cli.options import FROM_0, json_option, log_level_option
from roamq.cli.output import print_table
from roamq.core.errors import ConfigError, RoamqError

if TYPE_CHECKING:
    from roamq.net.ops.configuration import NetworkConfig

START_S_MAX = 30.0
STOP_S_MAX = 25.0


@click.command()
@click.argument("network", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--brokers", type=click.IntRange(1, 64), default=3, show_default=True, help="Number of brokers."
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes of each broker, which share its ports.",
)
@click.option("--scheme", default="proactive", show_default=True, help="The mobility scheme.")
@click.option(
    "--durability",
    type=click.Choice(["memory", "process", "disk"]),
    default="process",
    show_default=True,
    help="What acknowledged messages survive: nothing, a killed process, or a power failure.",
)
@click.option(
    "--records", type=click.Path(file_okay=False, path_type=Path), help="Folder for records of what happens."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for sessions; kept when the network stops.  [default: a temporary one]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="First MQTT port of several in a row.  [default: free ports]",
)
@click.option("--console", is_flag=True, help="Serve the console, and print where to open it.")
@log_level_option(default="WARNING")
@click.option("--for", "for_s", type=FROM_0, metavar="SECONDS", help="Stop after this time.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    network: Path | None,
    brokers: int,
    processes: int,
    scheme: str,
    durability: str,
    records: Path | None,
    data: Path | None,
    port: int,
    console: bool,
    log_level: str,
    for_s: float | None,
    as_json: bool,
) -> None:
    """Start a network on this machine, print its endpoints, and stop all brokers on Ctrl-C.

    NETWORK is a configuration file, as `roamq init` writes it, whose brokers are all started here. Without it, a full
    mesh of brokers on loopback is made up.

    \b
    Examples:
      roamq up
      roamq up net/network.toml --log-level INFO
      roamq up --brokers 6 --scheme standard --records records
      roamq up --brokers 1 --processes 2
      mosquitto_sub -p PORT -i me -c -q 2 -t 'news/#'    (then again at another broker's port)
    """
    from roamq.net.ops.configuration import load_network
    from roamq.net.ops.local import local_network
    from roamq.schemes.table import scheme_named

    if network is not None:
        _refuse_options(context, network)
        loaded = load_network(network)
        for name, table in loaded.brokers.items():
            if table.metrics_port is None:
                raise ConfigError(f"{network}: brokers.{name}.metrics_port: is needed to see that it is up")
        _run(network, loaded, for_s, log_level=log_level, as_json=as_json, link_token=False)
        return
    scheme_named(
        scheme
    )  # a wrong name is answered as what was typed, not as a line of a file that nobody has seen
    with tempfile.TemporaryDirectory(prefix="roamq-") as scratch:
        folder = data or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "network.toml"
        text = local_network(
            brokers,
            scheme=scheme,
            durability=durability,
            records=records.resolve() if records is not None else None,
            steps=True,
            first_port=port,
            processes=processes,
            console_token=secrets.token_urlsafe(24) if console else None,
        )
        path.write_text(text)
        path.chmod(0o600)
        _run(path, load_network(path), for_s, log_level=log_level, as_json=as_json, link_token=True)


def _refuse_options(context: click.Context, network: Path) -> None:
    """Refuses options that the configuration file decides."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("network", "log_level", "for_s", "as_json"):
            raise ConfigError(f"{parameter.opts[0]}: {network} says that; leave the option out")


def _run(
    path: Path,
    loaded: "NetworkConfig",
    for_s: float | None,
    *,
    log_level: str,
    as_json: bool,
    link_token: bool,
) -> None:
    """Starts all brokers, prints where they are, and stops them in the end."""
    urls_of = {
        name: [listener.url for listener in loaded.server_options(name).listeners]
        for name in loaded.processes
        if not loaded.brokers[name].gone
    }
    for name in urls_of:
        for mate in loaded.mates[name]:
            _require_free(path, mate, loaded.brokers[mate].metrics_port or 0)
    asked_to_stop = _stop_by_signal()
    processes = {name: _start(path, name, log_level) for name in urls_of}
    try:
        rows = []
        for name, urls in urls_of.items():
            table = loaded.brokers[name]
            for mate in loaded.mates[name]:
                port = loaded.brokers[mate].metrics_port or 0
                _wait_until_up(mate, processes[name], port, asked_to_stop)
            mqtt = next((url for url in urls if url.startswith("mqtt")), "-")
            websocket = next((url for url in urls if url.startswith("ws")), "-")
            rows.append((name, mqtt, websocket, f"http://127.0.0.1:{table.metrics_port}/metrics"))
        console = None
        if loaded.console is not None:
            console = rows[0][3].replace("/metrics", "/console")
            console += f"?token={loaded.console.token}" if link_token else f"  (token: see {path})"
        _print(rows, path, console, as_json=as_json)
        _wait(processes, for_s, asked_to_stop)
    finally:
        _stop(processes)


def _require_free(path: Path, name: str, port: int) -> None:
    """Checks that the broker's port is free: otherwise the answer of another program would pass for the broker's."""
    with socket.socket() as taken:
        taken.settimeout(1.0)
        if taken.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(
                f"{path}: brokers.{name}.metrics_port: {port} is taken; is the network up already? "
                f"`roamq status {path}` asks it"
            )


def _stop_by_signal() -> threading.Event:
    """Returns an event that SIGTERM and SIGINT (Ctrl-C) set from now on.

    It works before any broker is started and any line printed: a reader of the endpoints may stop the network.
    """
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    return asked


def _start(path: Path, name: str, log_level: str) -> "subprocess.Popen[bytes]":
    """Starts a broker in a process group of its own: Ctrl-C reaches this process, which stops the brokers. If this
    process is killed, they stop by themselves."""
    from roamq.net.ops.local import serve_command

    return subprocess.Popen(
        serve_command(path, name, log_level), stdin=subprocess.PIPE, start_new_session=True
    )


def _wait_until_up(
    name: str, process: "subprocess.Popen[bytes]", port: int, asked_to_stop: threading.Event
) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        if asked_to_stop.is_set():
            raise KeyboardInterrupt
        if process.poll() is not None:
            raise RoamqError(f"broker {name} ended as it started, with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0) as answer:
                if not json.load(answer)["links_down"]:
                    return
        except OSError:
            pass
        asked_to_stop.wait(0.05)
    raise RoamqError(f"broker {name} is not up after {START_S_MAX:.0f} s")


def _print(rows: list[tuple[Any, ...]], path: Path, console: str | None, *, as_json: bool) -> None:
    if as_json:
        keys = ("broker", "mqtt", "websocket", "metrics")
        brokers = [dict(zip(keys, row, strict=True)) for row in rows]
        click.echo(json.dumps({"config": str(path), "brokers": brokers, "console": console}))
    else:
        shown = [
            (name, mqtt, ws, metrics.removesuffix("/metrics").rpartition(":")[2])
            for name, mqtt, ws, metrics in rows
        ]
        print_table(["broker", "MQTT", "WebSocket", "HTTP port"], shown, narrow=True)
        if console is not None:
            click.echo(f"console: {console}")
        click.echo(f"From another terminal: roamq status {path}")
        click.echo("Ctrl-C stops them all.")
    sys.stdout.flush()


def _wait(
    processes: "dict[str, subprocess.Popen[bytes]]", for_s: float | None, asked_to_stop: threading.Event
) -> None:
    """Waits until somebody says stop, the time is over, or a broker process ends."""
    deadline = None if for_s is None else time.monotonic() + for_s
    while not asked_to_stop.wait(0.2):
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
        assert process.stdin is not None
        process.stdin.close()
