"""Pages of others in a browser on the broker's host: they get nothing from the API, the console or the metrics."""

import asyncio
from pathlib import Path

import pytest

from roamq.net.ops.local import local_network
from tests.net.live import running, write_network
from tests.net.ops.test_operation import ask

pytestmark = pytest.mark.live
TOKEN = "a token of some length"  # noqa: S105 - of this test
PATHS = [
    "/metrics",
    "/health",
    "/api/status",
    "/api/clients",
    "/api/where/x",
    "/api/openapi.json",
    "/console",
    "/console/stream",
]
FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Host": "evil.example"},
    {"Host": "evil.example:80"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": ""},
]


@pytest.mark.parametrize("console", [False, True])
def test_a_page_of_another_origin_or_name_gets_nothing(tmp_path: Path, console: bool) -> None:
    text = local_network(1, durability="memory", console_token=TOKEN if console else None)
    network = write_network(tmp_path, text)
    port = network.brokers["b1"].metrics_port or 0

    async def scenario() -> None:
        async with running(network):
            for path in PATHS:
                for headers in FOREIGN:
                    for method in ("GET", "POST"):
                        shown = {**headers, "Authorization": f"Bearer {TOKEN}", "Cookie": f"roamq={TOKEN}"}
                        status, _ = await asyncio.to_thread(ask, port, path, method, **shown)
                        assert status in (403, 404), (path, headers, method, status)
            status, _ = await asyncio.to_thread(ask, port, "/api/status", Authorization=f"Bearer {TOKEN}")
            assert status == 200

    asyncio.run(scenario())


def test_what_is_no_request_is_closed_and_harms_nobody(tmp_path: Path) -> None:
    network = write_network(tmp_path, local_network(1, durability="memory"))
    port = network.brokers["b1"].metrics_port or 0
    rubbish = [
        b"\x00\xff\r\n\r\n",
        b"GET http://[x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /drain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /drain HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"GET /api/events?after=x&limit=-5 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /" + b"x" * 100_000,
    ]

    async def scenario() -> None:
        async with running(network) as servers:
            for data in rubbish:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data)
                try:
                    answer = await asyncio.wait_for(reader.read(), 30)
                    assert b"200 OK" not in answer.partition(b"\r\n")[0], data[:60]
                except ConnectionError:
                    pass
                writer.close()
            assert (await asyncio.to_thread(ask, port, "/health"))[0] == 200
            assert servers["b1"].shell.counts["fault"] == 0

    asyncio.run(scenario())
