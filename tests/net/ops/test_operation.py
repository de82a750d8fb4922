"""The operators' port: who may act, and that no page in a browser may."""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from roamq.core.errors import ConfigError
from roamq.net.ops.local import local_network
from tests.net.live import running, write_network

pytestmark = pytest.mark.live
TOKEN = "a token of some length"  # noqa: S105 - of this test


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own port
            body = answer.read()
            return answer.status, json.loads(body) if body.startswith(b"{") else {}
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_who_may_act(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    text = local_network(2, scheme="standard", durability="memory")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("token = "))
    network = write_network(tmp_path, text.replace("[operation]", '[operation]\ntoken_file = "token"'))
    port = network.brokers["b1"].metrics_port
    assert port is not None

    async def scenario() -> None:
        async with running(network) as servers:
            right = f"Bearer {TOKEN}"
            answers = {}
            for name, headers in {
                "stranger": {},
                "guess": {"Authorization": "Bearer nonsense"},
                "half": {"Authorization": right[:-1]},
                "basic": {"Authorization": f"Basic {TOKEN}"},
                "page": {"Authorization": right, "Origin": "http://evil.example"},
                "rebound": {"Authorization": right, "Host": "evil.example"},
                "rebound with port": {"Authorization": right, "Host": f"evil.example:{port}"},
            }.items():
                for path in ("/drain", "/reload"):
                    status, body = await asyncio.to_thread(ask, port, path, "POST", **headers)
                    answers[name, path] = status
                    assert "error" in body
            assert {status for (name, _), status in answers.items() if "page" in name or "reb" in name} == {
                403
            }
            assert {status for (name, _), status in answers.items() if name in ("stranger", "guess")} == {401}
            assert set(answers.values()) == {401, 403}
            assert not servers["b1"].status().is_draining
            assert (await asyncio.to_thread(ask, port, "/health"))[0] == 200
            assert (await asyncio.to_thread(ask, port, "/metrics"))[0] == 200
            assert (await asyncio.to_thread(ask, port, "/metrics", Host="evil.example"))[0] == 403
            assert (await asyncio.to_thread(ask, port, "/metrics", Origin="null"))[0] == 403
            for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]"):
                assert (await asyncio.to_thread(ask, port, "/health", Host=host))[0] == 200
            status, body = await asyncio.to_thread(ask, port, "/reload", "POST", Authorization=right)
            assert (status, body["users"]) == (200, 0)
            status, _ = await asyncio.to_thread(ask, port, "/drain", "POST", Authorization=right)
            assert status == 200
            assert servers["b1"].status().is_draining

    asyncio.run(scenario())


def test_without_a_token_nobody_acts(tmp_path: Path) -> None:
    text = local_network(1, scheme="standard", durability="memory")
    network = write_network(tmp_path, "\n".join(x for x in text.splitlines() if not x.startswith("token = ")))
    port = network.brokers["b1"].metrics_port
    assert port is not None

    async def scenario() -> None:
        async with running(network):
            status, body = await asyncio.to_thread(ask, port, "/drain", "POST", Authorization="Bearer ")
            assert status == 403
            assert "operation.token_file" in body["error"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('token = "short"', "operation.token: a token has at least 16 characters"),
        ('token_file = "nowhere"', "operation.token_file"),
        (f'token = "{TOKEN}"\ntoken_file = "x"', "not both"),
    ],
)
def test_a_token_that_cannot_be_used_is_named(tmp_path: Path, table: str, said: str) -> None:
    text = "[operation]\n" + table + '\n[storage]\ndurability = "memory"\n[brokers.b1]\n'
    with pytest.raises(ConfigError, match=said):
        write_network(tmp_path, text).server_options("b1")
