"""`roamq keys`: certificates for the links of a network."""

from pathlib import Path

import click

from roamq.cli.options import authority_option, json_option
from roamq.cli.output import print_json
from roamq.core.errors import ConfigError


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to.  [default: `network.keys` of CONFIG]",
)
@authority_option
@json_option
def command(config: Path, out: Path | None, authority: Path | None, as_json: bool) -> None:
    """Make an authority for the network in CONFIG, and a certificate and key for each of its brokers.

    Existing files are kept, so run it again after adding a broker; to renew a certificate, remove its two files first.
    Listeners in CONFIG may name the files already. Give each broker ca.pem and its own two files, and name the folder
    in `network.keys`. Whoever has ca.key can make brokers: it is written to a folder of its own, which you keep away
    from all brokers.

    \b
    Examples:
      roamq keys network.toml
      roamq keys network.toml --out keys --authority /media/safe/authority
    """
    from roamq.net.ops.configuration import load_network
    from roamq.net.ops.keys import make_keys

    network = load_network(config, files_exist=False)
    if out is None and (out := network.keys_folder) is None:
        raise ConfigError(f"{config}: network.keys: names no folder; name it there, or by --out")
    written = [str(path) for path in make_keys(network, out, authority)]
    if as_json:
        print_json({"written": written})
    else:
        click.echo("\n".join(written) or f"{out} has all keys already")
