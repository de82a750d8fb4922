"""`roamq status`: the brokers of a network."""

import click

from roamq.cli.asking import again_and_again, ago, ask_all, doors, network_argument, watch_option
from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table


@click.command()
@network_argument
@watch_option
@json_option
def command(network: str, token: str | None, watch: bool, as_json: bool) -> None:
    """Show the brokers of NETWORK: their state, clients, sessions, stored messages, links and handoffs.

    NETWORK is a configuration file [default: network.toml], whose brokers are asked on this host, or the URL of one
    broker's metrics port. The exit code is 1 if a broker does not answer or is not well.

    \b
    Examples:
      roamq status network.toml
      roamq status http://127.0.0.1:9001 --json
    """
    asked = doors(network, token)
    well = True

    def show() -> None:
        nonlocal well
        answers = ask_all(asked, "/api/status")
        well = all(answer is not None and answer["status"] == "ok" for _, answer in answers)
        if as_json:
            print_json([answer or {"broker": door.name, "status": "no answer"} for door, answer in answers])
            return
        rows = []
        for door, answer in answers:
            if answer is None:
                rows.append((door.name, "no answer", *["-"] * 6))
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

    again_and_again(show, watch)
    raise SystemExit(0 if well else 1)
