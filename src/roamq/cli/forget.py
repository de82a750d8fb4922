"""`roamq forget`: a broker that will never return is declared dead."""

from pathlib import Path

import click

from roamq.cli.asking import NoAnswerError, acting_doors
from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import RoamqError


@click.command()
@click.argument("broker")
@click.argument("network", default="network.toml", metavar="[NETWORK]", type=click.Path(path_type=Path))
@json_option
def command(broker: str, network: Path, as_json: bool) -> None:
    """Declare BROKER dead, which joined NETWORK later and will never return.

    Run it where another broker of the network runs [default: network.toml]. What was stored at BROKER alone is lost.
    The command names the clients whose sessions were there, as far as is known: they get new ones instead of waiting.

    \b
    Example:
      roamq forget b4 network.toml
    """
    for door in acting_doors(network):
        if door.name == broker:
            continue
        try:
            lost = door.act(f"/api/forget/{broker}")["details"]
        except NoAnswerError:
            continue
        if as_json:
            print_json({"broker": broker, **lost})
            return
        click.echo(f"{broker} is forgotten; {lost['sessions']} sessions were there and are lost")
        for client in lost["clients"]:
            click.echo(f"  {client}")
        return
    raise RoamqError("no other broker of the network answers on this host; run it where one of them runs")
