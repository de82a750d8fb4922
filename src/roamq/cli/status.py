"""`roamq status`: the brokers of a network."""

from typing import Any

import click

from roamq.cli.asking import (
    Door,
    again_and_again,
    ago,
    ask_all,
    broker_option,
    doors,
    network_argument,
    only,
    watch_option,
)
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table

Answers = list[tuple[Door, dict[str, Any] | None]]


@click.command()
@network_argument
@broker_option
@watch_option
@json_option
def command(network: str, token: str | None, broker: str | None, watch: bool, as_json: bool) -> None:
    """Show the brokers of NETWORK: their state, clients, sessions, stored messages, links and handoffs.

    NETWORK is a configuration file [default: network.toml], whose brokers are asked on this host, or the URL of one
    broker's metrics port. The exit code is 1 if a broker does not answer or is not well.

    \b
    Examples:
      roamq status network.toml
      roamq status network.toml --broker north --watch
      roamq status http://127.0.0.1:9001 --json
    """
    asked = only(doors(network, token), broker)
    well = True

    def show() -> None:
        nonlocal well
        answers = ask_all(asked, "/api/status")
        silent = _silent(answers)
        well = "no answer" not in silent.values()
        well &= all(answer is None or answer["status"] == "ok" for _, answer in answers)
        if as_json:
            print_json(
                [answer or {"broker": door.name, "status": silent[door.name]} for door, answer in answers]
            )
            return
        rows = []
        for door, answer in answers:
            if answer is None:
                rows.append((door.name, silent[door.name], *["-"] * 6))
                continue
            down = [link["peer"] for link in answer["links"] if not link["is_up"]]
            links = f"{len(answer['links']) - len(down)}/{len(answer['links'])}"
            mean = answer["handoff_mean_s"]
            took = f"{answer['handoffs']}" + (f" ({mean * 1000:.0f} ms)" if mean is not None else "")
            rows.append(
                (
                    answer["broker"],
                    answer["status"],
                    answer["connections"],
                    answer["sessions"],
                    answer["stored_events"],
                    links,
                    took,
                    ago(answer["uptime_s"]),
                )
            )
        columns = ["broker", "state", "clients", "sessions", "stored", "links", "handoffs", "up"]
        print_table(columns, rows, numeric=["clients", "sessions", "stored", "links"], narrow=True)
        for door, answer in answers:
            for alarm in answer["alarms"] if answer is not None else ():
                click.echo(f"{door.name}: {alarm['level']}: {alarm['text']}")
            refused = answer.get("links_refused", {}) if answer is not None else {}  # not of an older release
            for peer, why in refused.items():
                click.echo(f"{door.name}: link with {peer} refused: {why}")
        click.echo(_versions(answers))

    again_and_again(show, watch)
    raise SystemExit(0 if well else 1)


def _silent(answers: Answers) -> dict[str, str]:
    """Broker that does not answer -> what the table says of it; one that has left, or not joined, need not answer."""
    silent = {door.name: "no answer" for door, answer in answers if answer is None}
    if silent:
        asked = next(door for door, answer in answers if answer is not None)
        present = {place["broker"] for place in asked.ask("/api/network")["places"]}
        silent |= {name: "not in network" for name in silent if name not in present}
    return silent


def _versions(answers: Answers) -> str:
    """Returns the release that the brokers run, or each broker's if they differ."""
    found = {door.name: f"roamq {answer['version']}" for door, answer in answers if answer is not None}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{name}: {version}" for name, version in found.items())
