"""`roamq clients`: who is connected where."""

import time
from typing import Any

import click

from roamq.cli.asking import ago
from roamq.cli.listing import Listing, Row, listing_options

COLUMNS = ["client", "broker", "user", "address", "for", "subscr.", "waiting"]


@click.command()
@listing_options
def command(listing: Listing) -> None:
    """List the clients that are connected to the brokers of NETWORK.

    NETWORK is a configuration file [default: network.toml] or the URL of one broker's metrics port.

    \b
    Examples:
      roamq clients network.toml
      roamq clients network.toml --search car- --limit 20 --watch
    """
    listing.show("clients", _table)


def _table(found: list[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
    now = time.time()
    return COLUMNS, [
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
