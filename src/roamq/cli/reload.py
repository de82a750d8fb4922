"""`roamq reload`: brokers read users, access rules and schemes again."""

from pathlib import Path
from typing import Any

import click

from roamq.cli.asking import NoAnswerError, acting_doors
from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import RoamqError


@click.command()
@click.argument("network", default="network.toml", metavar="[NETWORK]", type=click.Path(path_type=Path))
@json_option
def command(network: Path, as_json: bool) -> None:
    """Let the brokers of NETWORK on this host read users, access rules, schemes, links and positions again.

    NETWORK is the configuration file [default: network.toml], with the operators' token. A file with a mistake changes
    nothing. Users who are gone, or have another password, are cut; subscriptions that are no longer allowed end.
    Sessions are taken to the scheme that the file names for their clients, without loss. Brokers that do not answer
    here are named: they let in whom they let in before.

    \b
    Example:
      roamq reload network.toml
    """
    told: dict[str, dict[str, Any]] = {}
    silent, refused = [], []
    for door in acting_doors(network):
        try:
            told[door.name] = door.act("/api/reload")["details"]
        except NoAnswerError:
            silent.append(door.name)
        except RoamqError as error:  # the other brokers must still learn of the users of today
            refused.append(f"{door.name}: {error}")
    if not told and not refused:
        raise RoamqError("no broker answers on this host")
    if as_json:
        print_json(told)
    else:
        _show(told)
    if silent:
        click.echo(f"not reloaded, no answer on this host: {', '.join(silent)}", err=True)
    if refused:
        raise RoamqError("\nroamq: ".join(refused))


def _show(told: dict[str, dict[str, Any]]) -> None:
    for name, now in told.items():
        classes = f", {now['classes']} classes of clients" if now["classes"] else ""
        links = ", other links" if now.get("links_changed") else ""
        positions = ", other positions" if now.get("positions_changed") else ""
        scheme = f", scheme {now['scheme']} from now on{classes}" if now["schemes_changed"] else ""
        click.echo(f"{name}: {now['users']} users, {now['rules']} rules{scheme}{links}{positions}")
