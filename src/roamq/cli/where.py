"""`roamq where`: which broker serves a client, and what waits for it."""

import time

import click

from roamq.cli.asking import again_and_again, ago, ask_all, doors, network_argument, path_of, watch_option
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table
from roamq.cli.sessions import MODES


@click.command()
@click.argument("client")
@network_argument
@watch_option
@json_option
def command(client: str, network: str, token: str | None, watch: bool, as_json: bool) -> None:
    """Show where CLIENT is, what each broker of NETWORK keeps for it, and how many messages wait.

    NETWORK is a configuration file [default: network.toml] or the URL of one broker's metrics port. The exit code is 1
    if no broker knows the client.

    \b
    Examples:
      roamq where car-7 network.toml
      roamq where car-7 http://127.0.0.1:9001 --json
    """
    asked = doors(network, token)
    is_known = False

    def show() -> None:
        nonlocal is_known
        answers = [answer for _, answer in ask_all(asked, path_of(client)) if answer is not None]
        known = [answer for answer in answers if answer["broker"] is not None]
        newest = max(known, key=lambda answer: answer["since"] or 0.0, default=None)
        is_known = newest is not None
        if as_json:
            print_json({"client": client, "broker": newest and newest["broker"], "answers": answers})
            return
        if newest is None:
            click.echo(f"no broker knows {client}")
            return
        here = next((answer for answer in answers if answer["is_connected"]), None)
        if here is not None:
            click.echo(f"{client} is connected at {here['asked']}, for {ago(time.time() - newest['since'])}")
        else:
            since = ago(time.time() - newest["since"])
            click.echo(
                f"{client} is not connected; its last connection was at {newest['broker']}, {since} ago"
            )
        rows = [
            (
                answer["asked"],
                MODES.get(answer["session"]["mode"], answer["session"]["mode"]),
                answer["session"]["waiting"],
                ago(answer["session"]["oldest_s"]),
                ", ".join(answer["subscriptions"]) or "-",
            )
            for answer in answers
            if answer["session"] is not None
        ]
        columns = ["broker", "client is", "waiting", "oldest", "subscriptions"]
        print_table(columns, rows, numeric=["waiting", "oldest"], narrow=True)
        holder = next((one for one in answers if one["session"] and one["session"]["mode"] != "copy"), None)
        if holder is not None and holder["expected"]:
            click.echo(f"{holder['asked']} expects it next at {', '.join(holder['expected'])}")

    again_and_again(show, watch)
    raise SystemExit(0 if is_known else 1)
