"""`python -m tests.net.outside`: the checks of a conformance suite, against brokers that are processes.

Nobody looks into the brokers: where a suite waits, this waits `--pause` seconds. The same checks are made against one
broker, and against three of which each connection gets the next, with links of 0 and 40 ms. The counts must be equal.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from tests.net import test_conformance, test_conformance_exchanges
from tests.net.live import BrokerProcesses, port_of
from tests.net.turns import TurnedLine, forwarder
from tests.support.waiting import WAIT_S


class Outside(BrokerProcesses):
    """Brokers as processes, with delays between them and a round-robin in front of them."""

    def __init__(self, folder: Path, brokers: int, delay: float, pause_s: float, **options: Any) -> None:
        super().__init__(folder, brokers, **options)
        self.folder, self.delay, self.pause_s = folder, delay, pause_s
        self.failures: list[str] = []
        self.is_quiet = True
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._forward()))

    @contextlib.asynccontextmanager
    async def _links(self) -> AsyncIterator[None]:
        """Each broker has a configuration of its own, in which the others are behind a delay."""
        text = self.path.read_text()
        async with contextlib.AsyncExitStack() as stack:
            for name, entry in self.network.brokers.items():
                port = await stack.enter_async_context(forwarder([entry.link_port], self.delay))
                text = text.replace(f"link_port = {entry.link_port}\n", f"link_port = {{{name}:{port}}}\n")
            for me in self.network.brokers:
                own = text
                for name, entry in self.network.brokers.items():
                    head, _, rest = own.partition(f"link_port = {{{name}:")
                    there, _, tail = rest.partition("}")
                    own = f"{head}link_port = {entry.link_port if name == me else there}{tail}"
                (self.folder / f"{me}.toml").write_text(own)
            yield

    async def _forward(self) -> None:
        async with self._links():
            ports = [port_of(self.network, name) for name in self.network.brokers]
            async with forwarder(ports) as self.turn_port:
                self._ready.set()
                await asyncio.to_thread(self._stop.wait)

    def __enter__(self) -> "Outside":
        self._thread.start()
        assert self._ready.wait(WAIT_S)
        for name in self.network.brokers:
            self.path = self.folder / f"{name}.toml"
            self.start(name)
        for name in self.network.brokers:
            while self.health(name)["links_down"]:
                time.sleep(0.1)
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._stop.set()
        self._thread.join(WAIT_S)

    def connect(self, client: str, **how: object) -> TurnedLine:
        return TurnedLine.open(self.turn_port, client, **how)  # type: ignore[arg-type]

    @property
    def port(self) -> int:  # type: ignore[override]
        return self.turn_port


class OutsideSuite(test_conformance.Suite):
    """Waits by the clock."""

    def rest(self) -> None:
        until = time.monotonic() + self.turns.pause_s  # type: ignore[attr-defined]
        while time.monotonic() < until:
            for line in self.lines:
                line.look()
            time.sleep(0.01)
        for line in self.lines:
            line.ping()


def run(outside: Outside) -> Iterable[tuple[str, str | None]]:
    """Each check, and what was wrong."""
    for function in (*test_conformance.CHECKS, *test_conformance_exchanges.CHECKS):
        suite = OutsideSuite(outside, function.__name__)  # type: ignore[arg-type]
        try:
            function(suite)
            yield function.__name__, None
        except Exception as error:
            yield function.__name__, f"{type(error).__name__}: {error}"
        finally:
            suite.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pause", type=float, default=0.4, help="seconds that the checks wait where a suite does"
    )
    parser.add_argument("--scheme", default="proactive")
    parser.add_argument("--overlay", default="flooding")
    options = parser.parse_args()
    counts: list[int] = []
    for brokers, delay in ((1, 0.0), (3, 0.0), (3, 0.04)):
        with tempfile.TemporaryDirectory() as folder:
            settings = {"scheme": options.scheme, "overlay": options.overlay}
            with Outside(Path(folder), brokers, delay, options.pause, **settings) as outside:
                results = list(run(outside))
        counts.append(sum(wrong is None for _, wrong in results))
        sys.stdout.write(
            f"{brokers} brokers, links of {delay * 1000:.0f} ms: {counts[-1]} of {len(results)}\n"
        )
        for name, wrong in results:
            if wrong is not None:
                sys.stdout.write(f"  {name}: {wrong}\n")
        sys.stdout.flush()
    sys.exit(len(set(counts)) > 1)


if __name__ == "__main__":
    main()
