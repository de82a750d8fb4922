"""`roamq forget`: a broker that will never return is declared dead."""

from pathlib import Path

import click

from roamq.cli.asking import Door, NoAnswerError, acting_doors
from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import RoamqError


@click.command()
@click.argument("broker")
@click.argument("network", default="network.toml", metavar="[NETWORK]", type=click.Path(path_type=Path))
@json_option
def command(broker: str, network: Path, as_json: bool) -> None:
    """Declare BROKER of NETWORK dead, which will never return.

    Run it where another broker of the network runs [default: network.toml]. It is refused while that one is linked with
    BROKER, or if others reach each other through BROKER. What was stored at BROKER alone is lost.
    The command names the clients whose sessions were there, as far as is known: they get new ones instead of waiting.
    It also counts the clients elsewhere that wait for messages which BROKER had for them: those get what there is, and
    each broker records who may have missed messages of whom (`missed`).

    \b
    Example:
      roamq forget b4 network.toml
    """
    others = [door for door in acting_doors(network) if door.name != broker]
    awaited = _awaited(others, broker)
    for door in others:
        try:
            lost = door.act(f"/api/forget/{broker}")["details"]
        except NoAnswerError:
            continue
        if as_json:
            print_json({"broker": broker, **lost, "awaited": awaited})
            return
        click.echo(f"{broker} is forgotten; {lost['sessions']} sessions were there and are lost")
        for client in lost["clients"]:
            click.echo(f"  {client}")
        for name, count in awaited.items():
            click.echo(
                f"{count} sessions at {name} waited for messages that {broker} had for them: what had not come is "
                "lost, and recorded as missed"
            )
        return
    raise RoamqError("no other broker of the network answers on this host; run it where one of them runs")


def _awaited(others: list[Door], broker: str) -> dict[str, int]:
    """Broker that answers on this host -> its sessions for which the dead broker has messages."""
    found: dict[str, int] = {}
    for door in others:
        try:
            count = door.ask("/api/status")["awaited"].get(broker, 0)
        except NoAnswerError:
            continue
        if count:
            found[door.name] = count
    return found
