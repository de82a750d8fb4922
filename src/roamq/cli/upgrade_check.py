"""`roamq upgrade-check`: whether this release reads what a broker has stored."""

from pathlib import Path
from typing import Any

import click

from roamq import __version__
from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import RoamqError


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="Which of the network's brokers.")
@json_option
def command(config: Path, broker: str, as_json: bool) -> None:
    """Say whether this release reads what the broker NAME has stored, before anything is touched.

    Run it with the new release, on the broker's host; the broker may be running. Exit code 0: an upgrade may go on;
    1: it may not, and the reason is printed.

    \b
    Example:
      roamq upgrade-check network.toml --broker b1
    """
    from roamq.net.durable.upgrade import examine_broker
    from roamq.net.ops.configuration import load_network

    found = examine_broker(load_network(config).server_options(broker))
    if as_json:
        print_json({"broker": broker, **found})
    else:
        _tell(broker, found)
    raise SystemExit(0 if found["readable"] else 1)


def _tell(broker: str, found: dict[str, Any]) -> None:
    if not found["readable"]:
        raise RoamqError(found["reason"])
    oldest, newest = found["link_versions"]
    click.echo(f"release {__version__} reads what {broker} has stored")
    if found["folder"] is None:
        click.echo("  stored     nothing: storage.durability is memory")
    elif found["snapshot"] is None and not found["inputs"]:
        click.echo(f"  stored     nothing in {found['folder']}")
    else:
        if found["snapshot"] is not None:
            version, release = found["snapshot_version"], found["release"]
            click.echo(f"  snapshot   {found['snapshot']}, version {version}, written by release {release}")
            click.echo(f"  sessions   {found['sessions']}")
        click.echo(f"  journal    {found['inputs']} inputs after it")
    click.echo(f"  links      versions {oldest} to {newest}")
    for advice in found["advice"]:
        click.echo(f"  {advice}")
