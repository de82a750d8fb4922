"""`roamq sessions`: whose session is where, and what waits in it."""

import click

from roamq.cli.asking import again_and_again, ago, doors, network_argument, watch_option
from roamq.cli.listing import limit_options, listed
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table

MODES = {"serving": "connected", "active": "away", "copy": "copy"}


@click.command()
@network_argument
@limit_options
@watch_option
@json_option
def command(
    network: str,
    token: str | None,
    broker: str | None,
    search: str,
    limit: int,
    watch: bool,
    as_json: bool,
) -> None:
    """List the sessions at the brokers of NETWORK: how many messages wait in each, and since when.

    A client that is away has one session, and under some schemes copies at other brokers. Where there are several
    schemes, that of each session is shown. NETWORK is a configuration file [default: network.toml] or the URL of one
    broker's metrics port.

    \b
    Examples:
      roamq sessions network.toml
      roamq sessions network.toml --broker north --json
    """
    asked = doors(network, token)

    def show() -> None:
        found, note = listed(asked, "sessions", broker, search, limit)
        if as_json:
            print_json(found)
            return
        has_several = len({one["scheme"] for one in found}) > 1
        rows = [
            (
                one["client"],
                one["broker"],
                MODES.get(one["mode"], one["mode"]),
                one["subscriptions"],
                one["waiting"],
                ago(one["oldest_s"]),
                *([one["scheme"]] if has_several else []),
            )
            for one in found
        ]
        columns = ["client", "broker", "client is", "subscriptions", "waiting", "oldest"]
        columns += ["scheme"] if has_several else []
        print_table(columns, rows, numeric=["subscriptions", "waiting", "oldest"], narrow=True)
        if note:
            click.echo(note)

    again_and_again(show, watch)
