"""`roamq bench`: live brokers under load."""

from typing import TYPE_CHECKING

import click

from roamq.cli import roaming
from roamq.cli.groups import SentenceGroup
from roamq.cli.options import ABOVE_0, json_option
from roamq.cli.output import print_json, print_table

if TYPE_CHECKING:
    from roamq.net.bench.throughput import Result


@click.group(cls=SentenceGroup)
def command() -> None:
    """Measure live brokers: their throughput, and what happens to clients that roam.

    \b
    Examples:
      roamq bench throughput
      roamq bench roaming --quick
    """


@command.command()
@click.option("--seconds", type=ABOVE_0, default=3.0, show_default=True, help="Duration of each measurement.")
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds; the medians are printed."
)
@click.option("--amqtt", is_flag=True, help="Also measure amqtt; it is installed into a scratch folder.")
@click.option("--no-durable", is_flag=True, help="Skip the comparison of durable brokers.")
@json_option
def throughput(seconds: float, rounds: int, amqtt: bool, no_durable: bool, as_json: bool) -> None:
    """Measure messages per second beside mosquitto (and NATS, and amqtt), in turns, under the same load.

    RoamQ runs as usual: it writes records, and its mobility scheme is active. It keeps QoS 1 state in memory, as
    mosquitto does by default. A second comparison at QoS 1 makes acknowledged messages survive `kill -9`, beside NATS
    with its file store. A broker that is not installed is skipped, with a note.

    \b
    Examples:
      roamq bench throughput
      roamq bench throughput --seconds 1 --rounds 1 --amqtt --json
    """
    from roamq.net.bench import brokers
    from roamq.net.bench.throughput import Result, compare

    def note(text: str) -> None:
        click.echo(text, err=True)

    def show(result: Result) -> None:
        note(f"{result.shape} QoS {result.qos}: {result.broker} {result.rate:,.0f}/s")

    candidates = [brokers.ROAMQ, brokers.MOSQUITTO, *([brokers.AMQTT_BROKER] if amqtt else [])]
    results = compare(candidates, seconds=seconds, rounds=rounds, on_note=note, on_result=show)
    durable = []
    if not no_durable:
        pair = [brokers.ROAMQ_DURABLE, brokers.NATS]
        durable = compare(pair, qualities=(1,), seconds=seconds, rounds=rounds, on_note=note, on_result=show)
    if as_json:
        rows = [{**result._asdict(), "shape": str(result.shape)} for result in (*results, *durable)]
        print_json(rows)
        return
    _print_rates(results, "mosquitto", "State in memory")
    if durable:
        _print_rates(durable, "nats file store", "Acknowledged means durable")


def _print_rates(results: "list[Result]", reference: str, title: str) -> None:
    from roamq.net.bench.throughput import ratio

    rows = []
    for result in results:
        times = ratio(results, result.broker, reference, result.shape, result.qos)
        rows.append(
            (
                str(result.shape),
                result.qos,
                result.broker,
                f"{result.rate:,.0f}",
                "-" if times is None else f"{times:.2f}",
                f"{result.cpu_us:.2f}",
                f"{result.load_busy:.2f}",
            )
        )
    columns = ["load", "QoS", "broker", "deliveries/s", f"x {reference}", "CPU us each", "load's CPU"]
    print_table(columns, rows, title=title, numeric=columns[3:])


command.add_command(roaming.command, "roaming")
