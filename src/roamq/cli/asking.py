"""Asks the brokers of a network over their HTTP API: what `status`, `clients`, `sessions` and `where` share."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import click

from roamq.cli.suggest import did_you_mean
from roamq.core.errors import ConfigError, RoamqError

if TYPE_CHECKING:
    from roamq.net.ops.configuration import NetworkConfig

F = TypeVar("F", bound=Callable[..., Any])
TIMEOUT_S = 5.0
UNAUTHORIZED = 401
PAGE = 500
WATCH_EVERY_S = 2.0


class Door(NamedTuple):
    """The address at which one broker answers, and the token that it wants."""

    name: str
    url: str
    token: str | None

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        query_text = f"?{urlencode(query)}" if query else ""
        return self._send(urllib.request.Request(f"{self.url}{path}{query_text}"))  # noqa: S310 - http, see `doors`

    def act(self, path: str) -> dict[str, Any]:
        """Lets the broker act, with the operators' token."""
        meet(self.name, int(self.url.rpartition(":")[2]))
        return self._send(urllib.request.Request(f"{self.url}{path}", method="POST"))  # noqa: S310 - as above

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                return _said(answer, self.url)
        except urllib.error.HTTPError as error:
            with error:
                told = _said(error, self.url).get("error", error.reason)
            if error.code == UNAUTHORIZED and self.token is None:
                told = "wants a token: give --token, set ROAMQ_TOKEN, or name the configuration file instead of the URL"
                raise ConfigError(f"{self.url}: {told}") from error
            raise RoamqError(f"{self.url}: {told}") from error
        except OSError as error:
            raise NoAnswerError(f"{self.name} does not answer at {self.url}") from error

    def rows(self, kind: str, limit: int, search: str) -> Iterator[dict[str, Any]]:
        """Yields clients or sessions, page by page, up to `limit` of them."""
        after = ""
        while limit > 0:
            page = self.ask(f"/api/{kind}", after=after, limit=min(limit, PAGE), search=search)
            yield from page[kind]
            limit -= len(page[kind])
            after = page["next"]
            if after is None:
                return


class NoAnswerError(RoamqError):
    """A broker cannot be reached from here."""


def _said(answer: IO[bytes], at: str) -> dict[str, Any]:
    """Reads a broker's answer; raises `NoAnswerError` if another program has the port."""
    try:
        found = json.load(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NoAnswerError(f"what answers at {at} is no broker")
    return found


def ask_port(port: int, path: str, method: str = "GET", token: str | None = None) -> dict[str, Any]:
    """Returns the answer of the broker at a port of this host, also of a broker that is not healthy."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own port on loopback
            return _said(answer, f"port {port}")
    except urllib.error.HTTPError as error:
        with error:
            found = _said(error, f"port {port}")
        if "error" in found:
            raise RoamqError(found["error"]) from error
        return found  # a broker that is draining reports that it is not healthy
    except OSError as error:
        raise NoAnswerError(f"no broker answers at port {port}: {error}") from error


def meet(broker: str, port: int) -> None:
    """Checks that the broker of this name answers: a broker of another host may have the same port."""
    found = ask_port(port, "/health").get("broker")
    if found != broker:
        raise NoAnswerError(f"{broker} does not answer on this host: port {port} is that of {found}")


def doors(network: str, token: str | None) -> list[Door]:
    """Returns the doors of all brokers of a configuration file, or of the one at a URL."""
    if network.startswith(("http://", "https://")):
        return [Door("the broker", network.rstrip("/"), token)]
    from roamq.net.ops.configuration import load_network

    path = Path(network)
    loaded = _as_served(path, load_network(path, files_exist=False))
    if token is None and loaded.console is not None:
        token = loaded.console.token
    found = [
        Door(name, f"http://127.0.0.1:{table.metrics_port}", token)
        for name, table in loaded.brokers.items()
        if table.metrics_port is not None and not table.gone
    ]
    if not found:
        raise ConfigError(f"{path}: brokers: none has a metrics_port, which is where they answer")
    return found


def _as_served(path: Path, loaded: "NetworkConfig") -> "NetworkConfig":
    """Returns the network with as many processes as its only broker runs now: `roamq serve --processes` sets the number
    without the file."""
    from roamq.net.ops.configuration import load_network

    (name, processes), *others = loaded.processes.items()
    port = loaded.brokers[name].metrics_port
    if others or port is None:
        return loaded
    try:
        running = ask_port(port, "/health").get("processes", processes)
    except RoamqError:
        return loaded
    return loaded if running == processes else load_network(path, files_exist=False, processes=running)


def acting_doors(network: Path) -> list[Door]:
    """Returns the doors of a configuration's brokers on this host, with the token that operators show to act."""
    from roamq.net.ops.configuration import load_network

    loaded = load_network(network, files_exist=False)
    token = loaded.server_options(
        next(name for name, table in loaded.brokers.items() if not table.gone)
    ).token
    if token is None:
        raise ConfigError(f"{network}: operation.token_file: is needed to act on the brokers")
    return [door._replace(token=token) for door in doors(str(network), token)]


def network_argument(command: F) -> F:
    """Adds `[NETWORK]` and `--token`: the brokers to ask."""
    token = click.option("--token", envvar="ROAMQ_TOKEN", help="Token of the console, if NETWORK is a URL.")
    return click.argument("network", default="network.toml", metavar="[NETWORK]")(token(command))


def broker_option(command: F) -> F:
    return click.option("--broker", metavar="NAME", help="Ask this broker only.")(command)


def only(asked: list[Door], broker: str | None) -> list[Door]:
    """Returns the door of the broker that `--broker` names; without it, all doors."""
    if broker is None:
        return asked
    found = [door for door in asked if door.name == broker]
    if not found:
        names = [door.name for door in asked]
        raise ConfigError(f"--broker {broker}: no such broker{did_you_mean(broker, names)}")
    return found


def watch_option(command: F) -> F:
    return click.option("--watch", is_flag=True, help="Ask again every two seconds, until Ctrl-C.")(command)


def again_and_again(show: Callable[[], None], watch: bool) -> None:
    """Shows once, or with `watch` again and again on a cleared screen, until Ctrl-C."""
    while True:
        if watch:
            click.clear()
        try:
            show()
        except RoamqError as error:
            if not watch:
                raise
            click.echo(f"{error}; asking again")
        if not watch:
            return
        try:
            time.sleep(WATCH_EVERY_S)
        except KeyboardInterrupt:
            return


def ask_all(asked: list[Door], path: str) -> list[tuple[Door, dict[str, Any] | None]]:
    """Returns the answer of each broker, None for one that does not answer. At least one must answer."""
    found: list[tuple[Door, dict[str, Any] | None]] = []
    for door in asked:
        try:
            found.append((door, door.ask(path)))
        except NoAnswerError:
            found.append((door, None))
    if all(answer is None for _, answer in found):
        raise RoamqError(f"no broker answers on this host: {', '.join(door.url for door, _ in found)}")
    return found


def path_of(client: str) -> str:
    return f"/api/where/{quote(client, safe='')}"


def ago(seconds: float | None) -> str:
    """Writes a duration for people: 45 s, 12 min, 3.2 h, 4.0 days."""
    if seconds is None:
        return "-"
    for size, unit, digits in ((86400.0, "days", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"
