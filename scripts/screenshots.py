"""Take the pictures of the console that the pages show: `python -m scripts.screenshots`, in a minute, with Chromium.

Five brokers run here, clients roam between them, one client has been at several brokers and stays; then a broker dies.
"""

import asyncio
import contextlib
import random
import tempfile
import threading
from pathlib import Path

from tests.net.live import BrokerProcesses, PlainClient
from tests.support import chromium

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BROKERS = ("b1", "b2", "b3", "b4", "b5")
CLIENTS = 40
CHOSEN = "bus-1"
HANDOFFS = 25
"""To be in the picture, to the broker whose console is shown."""


async def roam(brokers: BrokerProcesses, number: int, ended: threading.Event) -> None:
    """One client: it stays a while, publishes, and goes to a neighbour or back, until `ended`."""
    client, choose = PlainClient(f"car-{number}"), random.Random(number)
    at = number % len(BROKERS)
    while not ended.is_set():
        with contextlib.suppress(OSError, AssertionError, TimeoutError):  # a broker is killed on the way
            await asyncio.wait_for(client.connect(brokers.port(BROKERS[at])), 3)
            await asyncio.wait_for(client.subscribe(f"news/{number % 5}", 1), 3)
            for _ in range(choose.randrange(4, 12)):
                client.publish(f"news/{choose.randrange(5)}", b"x" * 40, 1)
                await asyncio.sleep(choose.uniform(0.2, 0.8))
            await client.disconnect()
        await asyncio.sleep(choose.uniform(0.1, 1.0))
        at = (at + choose.choice((1, 1, -1))) % len(BROKERS)
    client.drop()


async def traffic(brokers: BrokerProcesses, ended: threading.Event) -> None:
    bus = PlainClient(CHOSEN)
    for broker in ("b5", "b1", "b2", "b1"):
        await bus.connect(brokers.port(broker))
        await bus.subscribe("timetable/#", 1)
    await asyncio.gather(*(roam(brokers, number, ended) for number in range(CLIENTS)))
    bus.drop()


def choose(page: chromium.Page) -> None:
    page.run("document.querySelector('#who').value = ''")
    page.click("#who")
    page.type(CHOSEN)
    page.press("Enter")
    page.wait_for("document.querySelectorAll('#facts .copy').length > 0")
    page.run("document.activeElement.blur(), scrollTo(0, 0)")


def main() -> None:
    ended = threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcesses(Path(folder), 5, console_token="a-token-for-pictures") as brokers,  # noqa: S106
        chromium.chromium(Path(folder)) as page,
    ):
        brokers.start()
        riding = threading.Thread(target=asyncio.run, args=(traffic(brokers, ended),))
        riding.start()
        try:
            page.call(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}]
            )
            page.resize(1280, 1000)
            port, token = brokers.network.brokers["b1"].metrics_port, brokers.network.operation.token
            page.open(f"http://127.0.0.1:{port}/console?token={token}")
            page.wait_for(f"+(document.querySelector('#t-handoffs') || {{}}).textContent >= {HANDOFFS}")
            choose(page)
            page.screenshot(IMAGES / "console.png")
            page.run("document.querySelector('#theme').click()")
            page.resize(390, 1300)
            page.wait_for("document.querySelector('#map').clientWidth < 390")
            page.wait_for("document.querySelector('#moved').textContent !== ''")
            page.screenshot(IMAGES / "console-phone.png")
            page.run("document.querySelector('#theme').click()")
            page.resize(1280, 1000)
            brokers.kill("b3")
            page.wait_for("document.querySelector('#alarm-list').textContent.includes('b3 is not reachable')")
            page.wait_for("document.querySelector('#moved').textContent !== ''")
            page.screenshot(IMAGES / "console-alarm.png")
        finally:
            ended.set()
            riding.join()


if __name__ == "__main__":
    main()
