"""`roamq sessions`: whose session is where, and what waits in it."""

from typing import Any

import click

from roamq.cli.asking import ago
from roamq.cli.listing import Listing, Row, listing_options

MODES = {"serving": "connected", "active": "away", "copy": "copy"}
COLUMNS = ["client", "broker", "client is", "subscriptions", "waiting", "oldest"]


@click.command()
@listing_options
def command(listing: Listing) -> None:
    """List the sessions at the brokers of NETWORK: how many messages wait in each, and since when.

    A client that is away has one session, and under some schemes copies at other brokers. Where there are several
    schemes, that of each session is shown. NETWORK is a configuration file [default: network.toml] or the URL of one
    broker's metrics port.

    \b
    Examples:
      roamq sessions network.toml
      roamq sessions network.toml --broker north --json
    """
    listing.show("sessions", _table)


def _table(found: list[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
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
    return [*COLUMNS, *(["scheme"] if has_several else [])], rows
