"""`roamq leave`: a broker hands everything over, leaves the network and ends."""

import time
from pathlib import Path

import click

from roamq.cli.asking import acting_doors, ask_port
from roamq.cli.options import FROM_0, json_option, whole_file
from roamq.cli.output import print_json
from roamq.cli.progress import progress
from roamq.config import to_toml
from roamq.core.errors import ConfigError, RoamqError

LOOK_EVERY_S = 0.2


@click.command()
@click.argument("network", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="The broker that leaves.")
@click.option("--timeout", type=FROM_0, default=120.0, show_default=True, help="Seconds to wait for its end.")
@json_option
def command(network: Path, broker: str, timeout: float, as_json: bool) -> None:
    """Let the broker NAME hand everything over, leave the network and end.

    Run it on the broker's own host. Its clients are sent to other brokers, and the sessions of absent ones go there.
    When all other brokers know where they are, the broker takes itself out of the network, sets its data folder aside
    and ends. With exit code 1 it has not ended in time: the broker goes on trying, and the command says for whom it
    waits. A broker of the first configuration leaves for good, and only if what others have for each other does not
    go through it; the answer names them. Its table stays in the file, with `gone = true`.

    \b
    Example:
      roamq leave network.toml --broker b4
    """
    doors = [door for door in acting_doors(network) if door.name == broker]
    if not doors:
        raise ConfigError(f"{network}: brokers.{broker}: is not there, or has no metrics_port")
    door = doors[0]
    sessions = door.act("/api/leave")["details"]["sessions"]
    waits: list[str] = []
    left, has_ended = sessions, False
    deadline = time.monotonic() + timeout
    with progress(f"sessions of {broker}") as report:
        while time.monotonic() < deadline and not has_ended:
            try:
                health = ask_port(int(door.url.rpartition(":")[2]), "/health")
            except RoamqError:
                has_ended = True
                break
            left = health.get("left", 0)
            waits = [*health.get("unconfirmed", {}), *health.get("unheard", [])]
            report(max(0, sessions - left), sessions)
            time.sleep(LOOK_EVERY_S)
    if as_json:
        print_json({"broker": broker, "sessions": sessions, "has_ended": has_ended, "waits_for": waits})
    elif has_ended:
        went = "its session is" if sessions == 1 else f"its {sessions} sessions are"
        went = f"{went} with other brokers. " if sessions else "it had no sessions. "
        click.echo(f"{broker} has left; {went}{_file(network, broker)}")
    if not has_ended:
        reason = (
            f"{left} sessions are still there"
            if left
            else f"these have not answered: {', '.join(waits) or '-'}"
        )
        raise RoamqError(
            f"{broker} has not ended after {timeout:g} s: {reason}; it goes on trying, ask again"
        )


def _file(network: Path, broker: str) -> str:
    """Marks the table of a core broker as gone, as the core keeps its names; returns what the operator must do."""
    from roamq.net.ops.configuration import load_network

    if broker in load_network(network, files_exist=False).edges:
        return f"Remove [brokers.{broker}] from {network}"
    lines = network.read_text().splitlines()
    headers = {f"[brokers.{broker}]", f"[brokers.{to_toml(broker)}]"}
    at = next((number for number, line in enumerate(lines) if line.split("#")[0].strip() in headers), None)
    if at is None:
        return f"Write `gone = true` into the table brokers.{broker} of {network}"
    with whole_file(network) as beside:
        beside.write_text("\n".join([*lines[: at + 1], "gone = true", *lines[at + 1 :]]) + "\n")
    return f"[brokers.{broker}] of {network} says `gone = true` now: let the files of other hosts say so, too"
