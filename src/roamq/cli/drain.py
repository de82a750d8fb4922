"""`roamq drain`: a broker is to be taken away."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError, RoamqError

LOOK_EVERY_S = 0.2


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="Which of the network's brokers to drain.")
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, help="Seconds to wait for the last session."
)
@json_option
def command(config: Path, broker: str, timeout: float, as_json: bool) -> None:
    """Hand the sessions of the broker NAME to other brokers and send its clients there.

    Run it on the broker's own host: the port it talks to is `metrics_port`, on loopback. When it ends with exit code 0
    no session is left and the broker may be stopped. A restart makes it serve again.

    \b
    Example:
      roamq drain network.toml --broker b1 && systemctl stop roamq-b1
    """
    from roamq.net.config import load_network

    port = load_network(config).server_options(broker).metrics_port
    if port is None:
        raise ConfigError(f"{config}: brokers.{broker}.metrics_port: is needed to reach the broker")
    sessions = _ask(port, "/drain", "POST")["sessions"]
    left = sessions
    deadline = time.monotonic() + timeout
    with progress(f"sessions of {broker}") as report:
        while left and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            left = _ask(port, "/health")["sessions"]
            report(sessions - left, sessions)
    if as_json:
        print_json({"broker": broker, "sessions": sessions, "left": left})
    else:
        click.echo(f"{sessions - left} of {sessions} sessions have moved away from {broker}")
    raise SystemExit(1 if left else 0)


def _ask(port: int, path: str, method: str = "GET") -> dict[str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5.0) as answer:  # noqa: S310 - our own port on loopback
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        found = json.load(error)
        if "error" in found:
            raise RoamqError(found["error"]) from error
        return found  # a broker that is draining calls itself unwell
    except OSError as error:
        raise RoamqError(f"no broker answers at port {port}: {error}") from error
