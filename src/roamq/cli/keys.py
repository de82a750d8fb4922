"""`roamq keys`: certificates for the links of a network."""

from pathlib import Path

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write to."
)
@json_option
def command(config: Path, out: Path, as_json: bool) -> None:
    """Make an authority for the network in CONFIG, and a certificate and key for each of its brokers.

    What the folder holds already is kept: run it again after adding a broker. Give each broker ca.pem and its own
    two files, keep ca.key away from all of them, and name the folder in `network.keys`.

    \b
    Example:
      roamq keys network.toml --out keys
    """
    from roamq.net.config import load_network
    from roamq.net.keys import make_keys

    written = [str(path) for path in make_keys(load_network(config), out)]
    if as_json:
        print_json({"written": written})
    else:
        click.echo("\n".join(written) or f"{out} has all keys already")
