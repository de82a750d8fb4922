"""`roamq serve`: one broker of a network."""

from pathlib import Path

import click


@click.command()
@click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="Which of the network's brokers to run.")
@click.option("--json", "as_json", is_flag=True, help="Logs as JSON lines.")
@click.option(
    "--log-level",
    type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]),
    default="INFO",
    show_default=True,
)
@click.option("--check", is_flag=True, help="Check the configuration and exit.")
def command(config: Path, broker: str, as_json: bool, log_level: str, check: bool) -> None:
    """Run the broker NAME of the network in CONFIG until SIGTERM or SIGINT.

    SIGHUP reads users and access rules anew. docs/live.md explains every field of CONFIG.

    \b
    Examples:
      roamq serve network.toml --broker b1
      roamq serve network.toml --broker b1 --check
    """
    from roamq.net.config import load_network
    from roamq.net.observe import set_up_logs
    from roamq.net.server import serve

    options = load_network(config).server_options(broker)
    if check:
        click.echo(f"{config}: broker {broker} is fine")
        return
    set_up_logs(broker, as_json=as_json, level=log_level)
    serve(options, reload=lambda: load_network(config).server_options(broker))
