"""`roamq serve`: one broker of a network."""

import logging
from pathlib import Path

import click

from roamq.cli.options import log_level_option
from roamq.core.errors import ConfigError


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--broker", metavar="NAME", help="Which of the network's brokers to run.")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Processes that share its listeners, one for each core.  [default: as CONFIG says, else 1]",
)
@click.option("--process", metavar="NAME", hidden=True, help="One process of a broker, as `serve` starts it.")
@click.option("--with-parent", is_flag=True, hidden=True, help="Stop when standard input ends.")
@click.option("--json", "as_json", is_flag=True, help="Logs as JSON lines.")
@log_level_option(default="INFO")
@click.option("--check", is_flag=True, help="Check the configuration, keys and folders, and exit.")
def command(
    config: Path,
    broker: str | None,
    processes: int | None,
    process: str | None,
    with_parent: bool,
    as_json: bool,
    log_level: str,
    check: bool,
) -> None:
    """Run the broker NAME of the network in CONFIG until SIGTERM or SIGINT.

    SIGHUP reloads users and access rules. docs/live.md explains every field of CONFIG.

    \b
    Examples:
      roamq serve network.toml --broker b1
      roamq serve network.toml --broker b1 --check
      roamq serve network.toml --broker b1 --processes 4
    """
    from roamq.net.ops import preflight
    from roamq.net.ops.configuration import load_network
    from roamq.net.ops.metrics import set_up_logs
    from roamq.net.server import serve

    if broker is None and process is None:
        raise click.UsageError("Missing option '--broker'.")
    network = load_network(config, processes=processes)
    name = process or broker or ""
    options = network.server_options(name)
    if check:
        found = [line for mate in network.mates[name] for line in preflight.problems(network, mate)]
        if found:
            raise ConfigError("\nroamq: ".join(dict.fromkeys(found)))
        click.echo(f"{config}: broker {broker} is fine")
        return
    if process is None and len(network.mates[name]) > 1:
        from roamq.cli.processes import supervise

        more = ["--log-level", log_level, *(["--json"] if as_json else [])]
        if processes is not None:
            more += ["--processes", str(processes)]
        supervise(config, network.mates[name], more, with_parent=with_parent)
        return
    set_up_logs(name, as_json=as_json, level=log_level)
    for line in preflight.unknown_users(network):
        logging.getLogger("roamq.server").warning("%s", line)
    serve(
        options,
        reload=lambda: load_network(config, processes=processes).server_options(name),
        with_parent=with_parent or process is not None,
    )
