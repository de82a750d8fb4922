"""`roamq drain`: prepare a broker to be taken away."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roamq.cli.asking import ask_port, meet
from roamq.cli.options import FROM_0, json_option
from roamq.cli.output import print_json
from roamq.cli.progress import progress
from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from roamq.net.ops.configuration import NetworkConfig

LOOK_EVERY_S = 0.2


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="Which of the network's brokers to drain.")
@click.option(
    "--timeout", type=FROM_0, default=60.0, show_default=True, help="Seconds to wait for the last session."
)
@json_option
def command(config: Path, broker: str, timeout: float, as_json: bool) -> None:
    """Hand the sessions of the broker NAME to other brokers and send its clients there.

    Run it on the broker's own host: the port it talks to is `metrics_port`, on loopback. When it ends with exit code 0
    no session is left, its neighbours have confirmed all that it handed over, and the broker may be stopped and its
    folder emptied. A restart makes it serve again.

    \b
    Example:
      roamq drain network.toml --broker b1 && systemctl stop roamq-b1
    """
    from roamq.net.ops.configuration import load_network

    network = load_network(config)
    options = {name: network.server_options(name) for name in _processes(network, broker)}
    token = options[broker].token
    found_at = {name: told.metrics_port for name, told in options.items() if told.metrics_port is not None}
    ports = list(found_at.values())
    if not ports:
        raise ConfigError(f"{config}: brokers.{broker}.metrics_port: is needed to reach the broker")
    if token is None:
        raise ConfigError(f"{config}: operation.token_file: is needed to act on the broker")
    for name, port in found_at.items():
        meet(name, port)
    sessions = sum(ask_port(port, "/drain", "POST", token)["sessions"] for port in ports)
    left = sessions
    went: Counter[str] = Counter()
    unconfirmed: Counter[str] = Counter()
    deadline = time.monotonic() + timeout
    with progress(f"sessions of {broker}") as report:
        while True:
            health = [ask_port(port, "/health") for port in ports]
            left = sum(told.get("left", 0) for told in health)
            went = sum((Counter(told.get("handed_to", {})) for told in health), Counter())
            unconfirmed = sum((Counter(told.get("unconfirmed", {})) for told in health), Counter())
            report(max(0, sessions - left), sessions)
            if not (left or unconfirmed) or time.monotonic() >= deadline:
                break
            time.sleep(LOOK_EVERY_S)
    if as_json:
        found = {"broker": broker, "sessions": sessions, "left": left, "handed_to": dict(went)}
        print_json({**found, "unconfirmed": dict(unconfirmed)})
    else:
        where = ", ".join(f"{count} to {peer}" for peer, count in sorted(went.items()))
        told = f"{sessions - left} of {sessions} sessions have moved away from {broker}"
        click.echo(f"{told}: {where}" if where else told)
        for peer, count in sorted(unconfirmed.items()):
            click.echo(
                f"{peer} has not confirmed {count} messages; do not empty the folder of {broker}", err=True
            )
    raise SystemExit(1 if left or unconfirmed else 0)


def _processes(network: "NetworkConfig", broker: str) -> tuple[str, ...]:
    """Returns all processes of the broker. An unknown name is returned as it is, and reported later."""
    return network.mates.get(broker, (broker,))
