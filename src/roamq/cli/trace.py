"""`roamq trace`: where is my message?"""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roamq.cli.asking import again_and_again, watch_option
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table
from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from roamq.net.ops.tracing import RecordFolder


@click.command()
@click.argument("what")
@click.argument("network", default="network.toml", metavar="[NETWORK]", type=click.Path(path_type=Path))
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, help="How many rows.")
@watch_option
@json_option
def command(what: str, network: Path, last: int, watch: bool, as_json: bool) -> None:
    """Follow WHAT through the records of a network: a message, a client, or a topic.

    WHAT is the id of a message (b1:1790003, as this command prints them), a topic or topic filter, or a client id.
    NETWORK is the configuration file [default: network.toml], or the folder of its records. Records are there after
    about `records.flush_s`; with `records.steps` they tell every step of a message. Collect the folders of brokers on
    several hosts in one folder to follow a message through all of them. The exit code is 1 if nothing was found.

    \b
    Examples:
      roamq trace 'news/#' network.toml
      roamq trace b1:1790003 network.toml
      roamq trace car-7 records --last 20 --watch
    """
    from roamq.net.ops.tracing import RecordFolder

    folder = _folder(network)
    is_found = False

    def show() -> None:
        nonlocal is_found
        is_found = _show(RecordFolder(folder), what, last, as_json)

    again_and_again(show, watch)
    raise SystemExit(0 if is_found else 1)


def _show(records: "RecordFolder", what: str, last: int, as_json: bool) -> bool:
    """Prints what is recorded; returns whether there is anything."""
    from roamq.net.ops.tracing import message_id, sentence

    if records.kind_of(what) == "topic":
        return _print_topic(records, what, last, as_json)
    named = message_id(what)
    rows = records.client(what, last) if named is None else records.message(*named).rows
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            click.echo(f"{_clock(row['time_s'])}  {sentence(row)}")
        if not rows:
            click.echo(f"nothing is recorded of {what}")
    return bool(rows)


def _print_topic(records: "RecordFolder", what: str, last: int, as_json: bool) -> bool:
    messages = records.topic(what, last)
    if as_json:
        print_json([{**vars(one), "receivers": sorted(one.receivers)} for one in messages])
    elif not messages:
        click.echo(f"nothing is recorded of {what}, as a client or as a topic")
    else:
        rows = [
            (
                _clock(one.time_s),
                one.id,
                one.topic,
                one.client or "-",
                one.delivered,
                one.dropped,
                "-" if one.slowest_s is None else f"{one.slowest_s:.3f}",
            )
            for one in messages
        ]
        columns = ["time", "message", "topic", "from", "delivered", "dropped", "slowest s"]
        print_table(columns, rows, numeric=columns[4:], narrow=True)
    return bool(messages)


def _clock(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S.%f")[:-3]


def _folder(network: Path) -> Path:
    if network.is_dir():
        return network
    from roamq.net.ops.configuration import load_network

    loaded = load_network(network, files_exist=False)
    if loaded.records is None:
        raise ConfigError(
            f"{network}: has no [records], so that nothing is recorded that could be traced; `roamq up --records "
            "FOLDER` records, and so does a network with `[records] folder = FOLDER`"
        )
    return loaded.folder / str(loaded.records.folder)
