"""`roamq kick`: end the connection of a client."""

from pathlib import Path

import click

from roamq.cli.asking import acting_doors, ask_all, path_of
from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import RoamqError


@click.command()
@click.argument("client")
@click.argument("network", default="network.toml", metavar="[NETWORK]", type=click.Path(path_type=Path))
@json_option
def command(client: str, network: Path, as_json: bool) -> None:
    """End the connection of CLIENT, at whichever broker of NETWORK on this host serves it. Its session stays.

    NETWORK is the configuration file [default: network.toml], with the operators' token. The client is told 0x98
    (Administrative action) and may connect again.

    \b
    Example:
      roamq kick car-7 network.toml
    """
    doors = acting_doors(network)
    here = [
        door
        for door, answer in ask_all(doors, path_of(client))
        if answer is not None and answer["is_connected"]
    ]
    if not here:
        raise RoamqError(f"{client} is connected to no broker on this host")
    for door in here:
        door.act(path_of(client).replace("/where/", "/kick/"))
    names = [door.name for door in here]
    if as_json:
        print_json({"client": client, "brokers": names})
    else:
        click.echo(f"{client} was disconnected from {', '.join(names)}; its session stays")
