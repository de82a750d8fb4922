"""The console in a real browser: login, live updates, a broker killed while watching, ten thousand clients."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.net.ops.api import HttpRequest
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network
from tests.net.live import BrokerProcesses, PlainClient, machine_of, running, write_network
from tests.support import chromium
from tests.support.waiting import eventually

TOKEN = "a-token-for-the-tests"  # noqa: S105 - for these tests
UPDATES = 3
BUSY_S_PER_UPDATE_MAX = 0.5
"""Processor time of the page. Updates come once a second: a page that needs longer than that for one has frozen."""
UPDATES_SEEN = f"""new Promise((done) => {{
  const stream = new EventSource("/console/stream"); let seen = 0;
  stream.addEventListener("change", () => {{ if (++seen === {UPDATES}) {{ stream.close(); done(true); }} }}); }})"""

CONTRASTS = """(() => {
  const style = getComputedStyle(document.documentElement), bad = [], weights = [0.2126, 0.7152, 0.0722];
  const light = (name) => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = style.getPropertyValue(name).trim();
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, at) => sum + v * weights[at], 0);
  };
  for (const ink of ["--ink", "--soft", "--a", "--bad", "--good", "--warn", "--copy"])
    for (const ground of ["--card", "--bg"]) {
      const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) bad.push([ink, ground, ratio]);
    }
  return bad; })()"""
"""Pairs of colours with less contrast than WCAG AA asks of text, 4.5."""

needs_browser = pytest.mark.skipif(chromium.FOUND is None, reason="no Chromium is installed")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[chromium.Page]:
    with chromium.chromium(tmp_path) as tab:
        yield tab


@pytest.mark.live
@pytest.mark.slow
@needs_browser
def test_an_operator_logs_in_and_sees_a_client_move_a_broker_join_and_one_die(
    tmp_path: Path, page: chromium.Page
) -> None:
    with BrokerProcesses(tmp_path, 3, scheme="standard", console_token=TOKEN) as brokers:
        brokers.start()
        url = f"http://127.0.0.1:{brokers.network.brokers['b1'].metrics_port}/console"
        page.open(url)
        log_in(page, "wrong")
        page.wait_for("document.querySelector('[role=alert]') !== null")
        log_in(page, TOKEN)
        page.wait_for("(document.querySelector('#broker') || {}).textContent === 'b1'")
        assert not page.run("document.querySelector('#reader').hidden")
        assert page.run("document.querySelector('#acts').hidden"), "a reader may not act"

        async def ride(name: str) -> None:
            car = PlainClient(name)
            await car.connect(brokers.port("b2"))
            await car.subscribe("news/#", 1)
            await asyncio.to_thread(
                page.wait_for,
                "document.querySelector('#brokers tr:nth-child(2) td:nth-child(2)').textContent === '1'",
            )
            await car.connect(brokers.port("b1"))
            car.publish("news/x", b"1", 1)
            await eventually(lambda: len(car.received) == 1)
            await car.disconnect()

        asyncio.run(ride("car"))
        page.wait_for("document.querySelector('#events').textContent.includes('from b2 to b1 in')")
        rows = "[...document.querySelectorAll('#ledger tbody tr')]"
        moved = f"{rows}.map((r) => [...r.cells].map((c) => c.textContent))"
        page.wait_for(f"{moved}.some((r) => r[1] === 'car' && r[2] === 'b2' && r[3] === 'b1')")
        page.press("/")
        page.type("car")
        page.press("Enter")
        page.wait_for("document.querySelector('#found').textContent.includes('newest connection at b1')")
        page.click("#list button")
        page.wait_for("document.querySelector('#rows tbody').textContent.includes('car')")
        assert page.text("#t-handoffs") == "1"
        before = page.run("document.documentElement.dataset.theme")
        page.click("#theme")
        assert page.run("document.documentElement.dataset.theme") != before
        page.resize(360, 740)
        assert page.run("document.documentElement.scrollWidth <= 360")

        page.run("window.row = document.querySelector('#ledger tbody tr')")
        joined = CliRunner().invoke(cli, ["join", str(brokers.path), "--broker", "b4", "--at", "b1"])
        assert joined.exit_code == 0, joined.output
        brokers.network = load_network(brokers.path)
        brokers.start("b4")
        page.wait_for(
            "[...document.querySelectorAll('#brokers tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
            ".some((r) => r[0] === 'b4' && r[2] === 'up')"
        )
        asyncio.run(ride("bus"))
        page.wait_for(f"{moved}.some((r) => r[1] === 'bus' && r[2] === 'b2' && r[3] === 'b1')")
        assert page.run("window.row.isConnected"), "what is new replaces no row that is being clicked"

        brokers.kill("b3")
        page.wait_for("document.querySelector('#state').textContent.includes('link down: b3')")
        page.wait_for("document.querySelector('#alarm-list').textContent.includes('b3 is not reachable')")
        brokers.start("b3")
        page.wait_for("document.querySelector('#alarms').hidden")
        page.wait_for("document.querySelector('#events').textContent.includes('over: b3 is not reachable')")
        brokers.kill("b1")
        page.wait_for("document.querySelector('#state').textContent.includes('does not answer')")
        brokers.start("b1")
        page.wait_for("document.querySelector('#state').textContent.startsWith('live')")
    assert [error for error in page.errors if "401" not in error and "ERR_" not in error] == []


@pytest.mark.live
@pytest.mark.slow
@needs_browser
def test_who_has_the_operators_token_kicks_reloads_and_drains(tmp_path: Path, page: chromium.Page) -> None:
    with BrokerProcesses(tmp_path, 3, scheme="proactive", console_token=TOKEN) as brokers:
        brokers.start()
        page.open(f"http://127.0.0.1:{brokers.network.brokers['b1'].metrics_port}/console")
        assert brokers.network.operation.token is not None
        log_in(page, brokers.network.operation.token)
        page.wait_for("(document.querySelector('#broker') || {}).textContent === 'b1'")

        async def ride() -> None:
            car = PlainClient("car")
            for broker in ("b2", "b1"):
                await car.connect(brokers.port(broker))
                await car.subscribe("news/#", 1)
            await asyncio.to_thread(look)
            await eventually(lambda: car.closed)
            await car.connect(brokers.port("b1"))
            await asyncio.to_thread(drain)
            await eventually(lambda: car.closed)

        def look() -> None:
            page.press("/")
            page.type("car")
            page.press("Enter")
            page.wait_for("document.querySelector('#facts').textContent.includes('news/#')")
            page.wait_for("document.querySelector('#facts .next').textContent === 'b2'")
            page.wait_for("document.querySelector('#facts .copy').textContent === 'b2'")
            page.click("#kick")
            page.press("Escape")
            page.wait_for("!document.querySelector('#sure').open")
            page.click("#kick")
            page.click("#sure-yes")
            page.wait_for("document.querySelector('#toast').textContent.startsWith('done: kick car')")
            page.wait_for("document.querySelector('#events').textContent.includes('an operator ended it')")
            page.click("[data-act=reload]")
            page.click("#sure-yes")
            page.wait_for("document.querySelector('#toast').textContent.includes('done: reload')")

        def drain() -> None:
            page.click("[data-act=drain]")
            page.click("#sure-yes")
            page.wait_for("document.querySelector('#state').textContent.startsWith('draining')")
            page.wait_for(
                "document.querySelector('#events').textContent.includes('drained: no session is left')"
            )
            page.wait_for(
                "document.querySelector('#alarm-list').textContent.includes('the broker is draining')"
            )

        asyncio.run(ride())
    assert [error for error in page.errors if "ERR_" not in error] == []


@pytest.mark.live
@pytest.mark.slow
@needs_browser
def test_the_page_is_accessible(tmp_path: Path, page: chromium.Page) -> None:
    """Every control has a name and is reached by the keyboard; text stands out from its ground, dark and light."""
    with BrokerProcesses(tmp_path, 2, scheme="standard", console_token=TOKEN) as brokers:
        brokers.start()
        token = brokers.network.operation.token
        page.open(f"http://127.0.0.1:{brokers.network.brokers['b1'].metrics_port}/console?token={token}")
        page.wait_for("(document.querySelector('#broker') || {}).textContent === 'b1'")
        page.call("Accessibility.enable")
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        controls = ("button", "textbox", "searchbox", "combobox", "link", "img", "table", "region")
        nameless = [
            node
            for node in tree
            if not node.get("ignored")
            and node["role"]["value"] in controls
            and not node.get("name", {}).get("value")
            and node["role"]["value"] != "table"
        ]
        assert nameless == []
        reached = set()
        for _ in range(40):
            page.press("Tab")
            reached.add(page.run("document.activeElement.id || document.activeElement.dataset.act || ''"))
        assert reached >= {"theme", "reload", "drain", "who", "which", "search", "kind", "events"}
        for theme in ("light", "dark"):
            page.run(f"document.documentElement.dataset.theme = '{theme}'")
            assert page.run(CONTRASTS) == []


def log_in(page: chromium.Page, token: str) -> None:
    page.wait_for("document.querySelector('#token') !== null")
    page.run("document.querySelector('#token').focus()")
    page.type(token)
    page.press("Enter")


@pytest.mark.live
@pytest.mark.slow
@needs_browser
def test_ten_thousand_clients_that_move_do_not_freeze_the_page(tmp_path: Path, page: chromium.Page) -> None:
    ended = threading.Event()
    network = write_network(tmp_path, local_network(2, durability="memory", console_token=TOKEN))
    url = f"http://127.0.0.1:{network.brokers['b1'].metrics_port}/console?token={TOKEN}"

    async def serve() -> None:
        async with running(network, "b1") as servers:  # b2 is only heard of: clients fly between the two
            directory = machine_of(servers["b1"]).directory
            rounds = 0
            while not ended.is_set():
                rounds += 1
                for number in range(10_000):
                    broker = BrokerId(f"b{1 + (number + rounds) % 2}")
                    directory.learn(ClientId(f"car-{number}"), Epoch(time.time(), broker), broker)
                await asyncio.sleep(0.5)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        page.resize(1280, 900)
        page.open(url)
        page.wait_for("(document.querySelector('#brokers td:nth-child(2)') || {}).textContent === '5,000'")
        page.wait_for("document.querySelector('#moved').textContent.includes('moved')")
        before_s = page.processor_s()
        page.run(UPDATES_SEEN)
        assert page.processor_s() - before_s < UPDATES * BUSY_S_PER_UPDATE_MAX
    finally:
        ended.set()
        thread.join()
    assert page.errors == [] or all("ERR_" in error for error in page.errors)


@pytest.mark.live
def test_without_the_token_nothing_is_shown(tmp_path: Path) -> None:
    async def look() -> None:
        network = write_network(tmp_path, local_network(1, durability="memory", console_token=TOKEN))
        async with running(network) as servers:
            port = network.brokers["b1"].metrics_port

            async def get(target: str, cookie: str = "", host: str = "localhost") -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n".encode())
                found = await reader.read()
                writer.close()
                return found

            assert b"<form" in await get("/console")
            for target in ("/console", "/api/status"):
                shown = await get(target, f"roamq={TOKEN}", host="example.org")
                assert shown.startswith(b"HTTP/1.1 403"), target
            for target in ("/console/stream", "/console/nothing", "/console/../../keys.py"):
                assert (await get(target)).startswith(b"HTTP/1.1 401"), target
            assert (await get("/console?token=wrong")).startswith(b"HTTP/1.1 401")
            entered = await get(f"/console?token={TOKEN}")
            assert b"303" in entered and b"HttpOnly; SameSite=Strict" in entered
            shown = await get("/console", f"roamq={TOKEN}")
            assert b"ledger" in shown and b"Content-Security-Policy: default-src 'self'" in shown
            assert b"http" not in shown.partition(b"<body>")[2]
            assert servers["b1"].observatory.console is not None

    asyncio.run(look())


@pytest.mark.live
def test_there_is_no_console_unless_it_is_asked_for(tmp_path: Path) -> None:
    async def look() -> None:
        network = write_network(tmp_path, local_network(1, durability="memory"))
        async with running(network) as servers:
            assert servers["b1"].observatory.console is None
            assert (
                servers["b1"].observatory.answer("GET /console HTTP/1.1", b"", {"host": "localhost"})[0][:3]
                == "404"
            )

    asyncio.run(look())


def test_a_cookie_is_found_among_others() -> None:
    request = HttpRequest.parse(f"GET / HTTP/1.1\r\ncookie: a=b; roamq={TOKEN}; c=d\r\n")
    assert request.shows(TOKEN) and not request.shows(TOKEN + "x") and not request.shows(None)
