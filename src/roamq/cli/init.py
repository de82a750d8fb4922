"""`roamq init`: a network with keys, users and TLS that starts as it is."""

import re
from pathlib import Path

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json
from roamq.core.errors import ConfigError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--site",
    "sites",
    multiple=True,
    metavar="NAME[=HOST]",
    help="A broker and the host that others reach it at; repeatable.  [default: b1, b2, b3 on this machine]",
)
@click.option("--name", default="roamq", show_default=True, help="Name of the network.")
@click.option("--user", default="operator", show_default=True, help="Name of its first user.")
@click.option("--scheme", default="proactive", show_default=True, help="The mobility scheme.")
@json_option
def command(folder: Path, sites: tuple[str, ...], name: str, user: str, scheme: str, as_json: bool) -> None:
    """Write a network to FOLDER: configuration, an authority, a certificate per broker, a user and a console token.

    The network starts as it is. Clients log in over TLS; anonymous ones are refused. The password is printed once and
    is in no file.

    \b
    Examples:
      roamq init net
      roamq init net --site north=10.0.0.1 --site south=10.0.0.2
    """
    from roamq.net.ops.starter import start_network

    made = start_network(folder, _hosts(sites), name=name, user=user, scheme=scheme)
    from roamq.net.ops.addresses import is_loopback
    from roamq.net.ops.configuration import load_network

    network = load_network(made.path)
    first = next(iter(network.brokers))
    url = network.server_options(first).listeners[0]
    host = network.brokers[first].host
    if as_json:
        answer = {"config": str(made.path), "user": user, "password": made.password}
        print_json({**answer, "console_token": made.token, "written": [str(file) for file in made.files]})
        return
    click.echo(f"wrote {made.path}, keys and a token to {folder}")
    authority = next(file for file in made.files if file.name == "ca.key")
    click.echo(f"wrote {authority}: it makes brokers; keep it away from all of them")
    click.echo(f"user {user}, password {made.password}   (printed once; only its hash is in the file)")
    if all(is_loopback(table.host) for table in network.brokers.values()):
        click.echo(f"\nStart all brokers on this machine:\n  roamq up {made.path}")
    else:
        click.echo("\nStart each broker on its host:")
        for broker in network.brokers:
            click.echo(f"  roamq serve {made.path} --broker {broker}")
    click.echo(
        "\nThen subscribe; connect again with the same -i at another broker, and the session is there:"
    )
    click.echo(f"  mosquitto_sub -h {host} -p {url.port} --cafile {folder / 'keys' / 'ca.pem'} \\")
    click.echo(f"    -u {user} -P {made.password} -i me -c -q 1 -t 'news/#'")
    port = network.brokers[first].metrics_port
    click.echo(f"\nConsole: http://127.0.0.1:{port}/console, token {made.token}")


def _hosts(sites: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for site in sites or ("b1", "b2", "b3"):
        name, _, host = site.partition("=")
        if not NAME.fullmatch(name):
            raise ConfigError(f"--site {site}: a name has letters, digits and -, such as north=10.0.0.1")
        if name in found:
            raise ConfigError(f"--site {site}: {name} was named before")
        found[name] = host or "127.0.0.1"
    return found
