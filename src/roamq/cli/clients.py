"""`roamq clients`: who is connected where."""

import time

import click

from roamq.cli.asking import again_and_again, ago, doors, network_argument, watch_option
from roamq.cli.listing import limit_options, listed
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table


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
    """List the clients that are connected to the brokers of NETWORK.

    NETWORK is a configuration file [default: network.toml] or the URL of one broker's metrics port.

    \b
    Examples:
      roamq clients network.toml
      roamq clients network.toml --search car- --limit 20 --watch
    """
    asked = doors(network, token)

    def show() -> None:
        found, note = listed(asked, "clients", broker, search, limit)
        if as_json:
            print_json(found)
            return
        now = time.time()
        rows = [
            (
                one["client"],
                one["broker"],
                one["user"] or "-",
                one["address"],
                ago(now - one["connected_at"]) if one["is_in"] else "waits",
                one["subscriptions"],
                one["waiting"] + one["in_flight"],
            )
            for one in found
        ]
        columns = ["client", "broker", "user", "address", "for", "subscr.", "waiting"]
        print_table(columns, rows, numeric=["subscr.", "waiting"], narrow=True)
        if note:
            click.echo(note)

    again_and_again(show, watch)
