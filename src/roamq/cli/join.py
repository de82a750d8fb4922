"""`roamq join`: a new broker enters a running network."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from roamq.cli.asking import NoAnswerError, acting_doors
from roamq.cli.options import authority_option, json_option, whole_file
from roamq.cli.output import print_json
from roamq.config import to_toml
from roamq.core.errors import ConfigError, RoamqError

if TYPE_CHECKING:
    from roamq.net.ops.configuration import NetworkConfig

TLS_PORT = 8883
METRICS_PORT = 9001


@click.command()
@click.argument("network", type=click.Path(dir_okay=False, exists=True, path_type=Path))
@click.option("--broker", required=True, metavar="NAME", help="What the new broker is called.")
@click.option(
    "--at", multiple=True, metavar="BROKER", help="A broker that the new one is linked with; may be repeated."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where clients and other brokers find the new one."
)
@click.option(
    "--publishes",
    multiple=True,
    metavar="FILTER",
    help="A topic filter of what may be published there; may be repeated. Without it, anything.",
)
@authority_option
@json_option
def command(
    network: Path,
    broker: str,
    at: tuple[str, ...],
    host: str,
    publishes: tuple[str, ...],
    authority: Path | None,
    as_json: bool,
) -> None:
    """Let a new broker enter the running network of the configuration NETWORK.

    Run it where a broker of the network runs, which is asked to admit the new one. If NETWORK has no [brokers.NAME],
    the command adds it, and makes the broker's certificate where the network has keys. The other brokers need
    not be restarted, nor be given the file. Then start the new broker, here or, with the file, operation.token,
    keys/ca.pem and its own two files of keys/, on its own host.

    \b
    Example:
      roamq join network.toml --broker b4 --at b1 --at b2
      roamq serve network.toml --broker b4
    """
    from roamq.net.broker_names import NAMED_WITH, names_broker
    from roamq.net.ops.advertising import fault_of
    from roamq.net.ops.configuration import load_network

    before = network.read_text()
    loaded = load_network(network, files_exist=False)
    text = before
    if broker in loaded.brokers and broker not in loaded.edges:
        raise ConfigError(f"{network}: brokers.{broker}: is a broker of the first configuration already")
    if broker not in loaded.edges:
        if not at:
            raise ConfigError(f"--at: name a broker that {broker} is linked with: {', '.join(loaded.core)}")
        if not names_broker(broker):
            raise ConfigError(f"--broker: {broker!r} is no name for a broker: {NAMED_WITH}")
        if publishes and (fault := fault_of(publishes, loaded.network.overlay)):
            raise ConfigError(f"--publishes: {fault}")
        text = before.rstrip("\n") + "\n" + _table(loaded, broker, at, host, publishes)
    else:
        said = loaded.brokers[broker].calls or list(loaded.edges[broker])
        if at and list(at) != said:
            raise ConfigError(f"{network}: brokers.{broker}: is linked with {said}; leave --at out")
        if publishes and list(publishes) != loaded.brokers[broker].publishes:
            raise ConfigError(
                f"{network}: brokers.{broker}.publishes: says something else; leave --publishes out"
            )
    if text != before:
        _write(network, text)
    written: list[Path] = []
    try:
        found = load_network(network, files_exist=False)
        written += _keys(found, broker, authority)
        answer = _ask(network, broker, found)
    except (RoamqError, OSError):
        # A broker that was not admitted stays out of the file, and gets no key.
        _write(network, before)
        for path in written:
            path.unlink()
        raise
    if as_json:
        print_json({"broker": broker, **answer, "files": [str(path) for path in (*written, network)]})
        return
    calls = found.brokers[broker].calls or answer["at"]
    linked = " and ".join(one for one in answer["at"] if one in calls)
    carried = [one for one in (*answer["at"], *answer.get("beside", ())) if one not in calls]
    through = f", and through them with {' and '.join(carried)}" if carried else ""
    click.echo(
        f"{broker} may join: it will be linked with {linked}{through} (network version {answer['version']})"
    )
    for path in written:
        click.echo(f"  wrote {path}")
    click.echo(f"start it: roamq serve {network} --broker {broker}")


def _write(network: Path, text: str) -> None:
    """Writes the file as a whole: on a full disk it stays as it was."""
    with whole_file(network) as beside:
        beside.write_text(text)


def _table(
    loaded: "NetworkConfig", broker: str, at: tuple[str, ...], host: str, publishes: tuple[str, ...]
) -> str:
    """Returns the table of the new broker: TLS if the network has keys, else plain on loopback."""
    from roamq.net.ops.addresses import is_loopback
    from roamq.net.ops.local import free_ports
    from roamq.net.ops.wiring import linked_when_joining

    core = [name for name in loaded.core if not loaded.brokers[name].gone]
    linked = linked_when_joining(loaded.paths, core, loaded.connections, at)
    calls = [f"calls = {to_toml(list(at))}          # others carry its links with the rest"]
    tls = loaded.network.keys is not None
    mqtt, metrics = free_ports(2, but=loaded.ports) if is_loopback(host) else (TLS_PORT, METRICS_PORT)
    listens = "127.0.0.1" if is_loopback(host) else "0.0.0.0"  # noqa: S104 - the operator named the host
    files = ""
    if tls:
        folder = loaded.network.keys
        files = f', certificate = "{folder}/{broker}.pem", key = "{folder}/{broker}.key"'
    kind = "mqtts" if tls else "mqtt"
    lines = [
        f"[brokers.{to_toml(broker)}]",
        f"at = {to_toml(list(linked))}             # joined later, linked with these",
        *(calls if set(linked) != set(at) else ()),
        *([f"publishes = {to_toml(list(publishes))}"] if publishes else ()),
        f"host = {to_toml(host)}",
        f"metrics_port = {metrics}",
        f"reference = {to_toml(f'{host}:{mqtt}')}",
        f'listeners = [{{ kind = "{kind}", host = "{listens}", port = {mqtt}{files} }}]',
    ]
    return "\n" + "\n".join(lines) + "\n"


def _keys(loaded: "NetworkConfig", broker: str, authority: Path | None) -> list[Path]:
    """Makes the certificate of the new broker, if the network has keys; returns the files."""
    if loaded.keys_folder is None:
        return []
    from roamq.net.ops.keys import make_keys

    return make_keys(loaded, loaded.keys_folder, authority, brokers=[broker])


def _ask(network: Path, broker: str, loaded: "NetworkConfig") -> dict[str, list[str]]:
    """Lets a broker on this host admit the new one; asks brokers that it will be linked with first."""
    at = loaded.edges[broker]
    table = loaded.brokers[broker]
    calls = table.calls or at
    said = {
        "at": ",".join(at),
        "calls": ",".join(calls),
        "reference": loaded.settings(broker).references[broker],
    }
    if table.position is not None:
        said["position"] = ",".join(map(str, table.position))
    if table.publishes is not None:
        from roamq.net.ops.advertising import said as in_query

        said["publishes"] = in_query(table.publishes)
    doors = [door for door in acting_doors(network) if door.name != broker]
    for door in sorted(doors, key=lambda door: door.name not in at):
        try:
            answer: dict[str, list[str]] = door.act(f"/api/join/{broker}?{urlencode(said)}")["details"]
            return answer
        except NoAnswerError:
            continue
    raise RoamqError("no broker of the network answers on this host; run it where one of them runs")
