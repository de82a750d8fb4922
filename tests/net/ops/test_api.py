"""The HTTP API, and the commands that ask it: who is where, and where a message is."""

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from click.testing import CliRunner, Result

from roamq import __version__
from roamq.cli.main import cli
from roamq.config import strings_under_fields
from roamq.net.clients.mqtt.codec import Connect, Version, encode
from roamq.net.ops.api import _ACTIONS, _PATHS, HttpRequest, openapi
from roamq.net.ops.inspection import ErrorAnswer, TraceAnswer
from roamq.net.ops.local import free_ports, local_network
from roamq.net.server import Server
from tests.net.live import PlainClient, machine_of, port_of, running, write_network
from tests.support.waiting import WAIT_S, eventually, wait_until

TOKEN = "0123456789abcdef"  # noqa: S105 - for these tests


def asked(server: Server, target: str, **headers: str) -> tuple[str, Any]:
    assert server.observatory.api is not None
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    response = server.observatory.api.answer(HttpRequest.parse("\r\n".join(lines)))
    return response.status, json.loads(response.body)


def test_the_description_names_every_answer_and_every_field_of_it() -> None:
    described = openapi()
    assert described["paths"].keys() == _PATHS.keys() | _ACTIONS.keys()
    schemas = described["components"]["schemas"]
    for kind, _, _ in _PATHS.values():
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert schemas[kind.__name__]["properties"].keys() == fields
        about = strings_under_fields(kind)
        assert {
            name: one["description"]
            for name, one in schemas[kind.__name__]["properties"].items()
            if name in about
        } == about
    assert set(schemas) >= {"LinkAnswer", "ClientRow", "SessionRow", "EventRow", "PlaceRow"}


def test_the_description_holds_together() -> None:
    """What makers of clients need: names of operations, parameters of paths, schemas that exist, errors too."""
    described = openapi()
    operations = [(path, one) for path, methods in described["paths"].items() for one in methods.values()]
    names = [one["operationId"] for _, one in operations]
    assert len(set(names)) == len(names)
    for path, one in operations:
        in_path = {each["name"] for each in one["parameters"] if each["in"] == "path" and each["required"]}
        assert in_path == set(re.findall(r"{(\w+)}", path)), path
        error = one["responses"]["401"]["content"]["application/json"]["schema"]
        assert error == {"$ref": "#/components/schemas/ErrorAnswer"}
    schemas = described["components"]["schemas"]
    named = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described))
    assert {"StatusAnswer", "DoneAnswer", "ErrorAnswer"} <= set(named) <= schemas.keys()
    after = {
        path: next(one["schema"]["type"] for one in get["get"]["parameters"] if one["name"] == "after")
        for path, get in described["paths"].items()
        if path in ("/api/events", "/api/clients")
    }
    assert after == {"/api/clients": "string", "/api/events": "integer"}


@pytest.mark.live
def test_every_answer_is_as_it_is_described(tmp_path: Path) -> None:
    async def ride() -> None:
        network = write_network(tmp_path, local_network(2, scheme="standard"))
        async with running(network) as servers:
            car = PlainClient("car")
            await car.connect(port_of(network, "b1"))
            await car.subscribe("news/#", 1)
            for path, (kind, _, _) in _PATHS.items():
                if "{what}" in path:
                    continue  # read by a process of its own, over HTTP alone
                status, answer = asked(servers["b1"], path.replace("{client}", "car"))
                assert status == "200 OK"
                msgspec.convert(answer, kind, strict=True)
            assert asked(servers["b1"], "/api/openapi.json")[1]["openapi"] == "3.1.0"
            assert asked(servers["b1"], "/api/nothing")[0] == "404 Not Found"
            assert asked(servers["b1"], "/api/clients?limit=0")[0] == "400 Bad Request"
            refused = asked(servers["b1"], "/api/clients?limit=x")[1]
            assert msgspec.convert(refused, ErrorAnswer).error == "limit: 'x' is not a number"
            where = asked(servers["b2"], "/api/where/car")[1]
            await eventually(lambda: asked(servers["b2"], "/api/where/car")[1]["broker"] == "b1")
            assert (where["is_connected"], where["session"]) == (False, None)
            here = asked(servers["b1"], "/api/where/car")[1]
            assert (here["is_connected"], here["subscriptions"]) == (True, ["news/#"])
            car.drop()

    asyncio.run(ride())


@pytest.mark.live
def test_with_a_console_every_question_needs_the_token(tmp_path: Path) -> None:
    async def ride() -> None:
        extra = f'[console]\ntoken = "{TOKEN}"\n'
        network = write_network(tmp_path, local_network(1, scheme="standard", extra=extra))
        async with running(network) as servers:
            server = servers["b1"]
            for path in _PATHS:
                assert asked(server, path)[0] == "401 Unauthorized"
            assert asked(server, "/api/status", Authorization=f"Bearer {TOKEN}x")[0] == "401 Unauthorized"
            assert asked(server, "/api/status", Authorization=f"Bearer {TOKEN}")[0] == "200 OK"
            assert asked(server, "/api/status", Cookie=f"a=b; roamq={TOKEN}")[0] == "200 OK"

    asyncio.run(ride())


@pytest.mark.slow
def test_ten_thousand_clients_come_in_pages(tmp_path: Path) -> None:
    async def look() -> None:
        network = write_network(tmp_path, local_network(1, scheme="standard", durability="memory"))
        async with running(network) as servers:
            machine = machine_of(servers["b1"])
            now = time.time()
            for number in range(1, 10_001):
                machine.opened(number, now, "0:mqtt", "127.0.0.1:1")
                machine.received(number, encode(Connect(client_id=f"c{number:05d}"), Version.V5), now)
                machine.authenticated(number, None, now, allowed=True)
            names: list[str] = []
            after: str | None = ""
            pages = 0
            while after is not None:
                assert servers["b1"].observatory.api is not None
                page = servers["b1"].observatory.api.inspector.clients(after=after, limit=1000)
                names += [one.client for one in page.clients]
                after, pages = page.next, pages + 1
            assert (len(names), pages, names == sorted(names)) == (10_000, 10, True)
            found = asked(servers["b1"], "/api/clients?search=0999")[1]["clients"]
            assert [one["client"] for one in found] == ["c00999", *(f"c0999{n}" for n in range(10))]
            assert asked(servers["b1"], "/api/network")[1]["places"][0]["clients"] == 10_000

    asyncio.run(look())


def trace_over_http(port: int | None) -> None:
    """What the records tell, asked as a program would: first the topic, then the message, then its receiver."""

    def got(what: str, **query: object) -> TraceAnswer:
        url = f"http://127.0.0.1:{port}/api/trace/{quote(what, safe='')}?{urlencode(query)}"
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return msgspec.json.decode(answer.read(), type=TraceAnswer, strict=True)

    def is_told() -> bool:
        try:
            found = got("news/#").messages
        except urllib.error.HTTPError as error:  # nothing is in the folder yet
            with error:
                return False
        return [one.receivers for one in found] == [["car"]]

    wait_until(is_told, "the records")
    (message,) = got("news/#").messages
    steps = got(message.message)
    assert (steps.about, steps.steps[0].kind, steps.steps[0].client) == ("message", "published", "shop")
    assert steps.steps[0].text.startswith(f"shop published {message.message} to news/today at b1")
    assert [one.kind for one in got("car", last=1).steps] and got("car").about == "client"
    assert len(got("car", last=1).steps) == 1 and got("--help").messages == []
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        got("car", last=0)
    with refused.value:
        assert json.load(refused.value) == {"error": "last: is 0, and may be 1 to 1000"}


@pytest.mark.live
def test_commands_tell_who_is_where_and_where_a_message_is(tmp_path: Path) -> None:
    """The whole way: published at b1 while the client is away, handed over to b2, delivered there."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, str(tmp_path / "network.toml")])

    async def ride() -> None:
        text = local_network(2, scheme="standard", records=tmp_path / "records")
        network = write_network(tmp_path, text.replace("[records]", "[records]\nflush_s = 0.05"))
        async with running(network):
            car, shop = PlainClient("car"), PlainClient("shop")
            await car.connect(port_of(network, "b1"))
            await car.subscribe("news/#", 1)
            await car.disconnect()
            await shop.connect(port_of(network, "b1"))
            shop.publish("news/today", b"hello", 1)
            await eventually(lambda: bool(shop.acknowledged))
            away = await asyncio.to_thread(run, "where", "car")
            assert away.exit_code == 0 and "its last connection was at b1" in away.output
            waiting = await asyncio.to_thread(run, "sessions", "--json")
            assert [(one["client"], one["waiting"]) for one in json.loads(waiting.output)] == [
                ("car", 1),
                ("shop", 0),
            ]
            await car.connect(port_of(network, "b2"))
            await eventually(lambda: len(car.received) == 1)
            status = await asyncio.to_thread(run, "status")
            assert status.exit_code == 0 and "b2" in status.output, status.output
            assert max(len(line) for line in status.output.splitlines()) <= 80
            assert status.output.endswith(f"roamq {__version__}\n")
            clients = await asyncio.to_thread(run, "clients", "--search", "ar")
            assert "car" in clients.output and "shop" not in clients.output
            assert "is connected at b2" in (await asyncio.to_thread(run, "where", "car")).output
            nobody = await asyncio.to_thread(run, "where", "nobody")
            assert (nobody.exit_code, nobody.output) == (1, "no broker knows nobody\n")
            await asyncio.to_thread(trace_over_http, network.brokers["b1"].metrics_port)
            car.drop()
            shop.drop()

    asyncio.run(ride())
    topic = run("trace", "news/#", "--json")
    (message,) = json.loads(topic.output)
    assert (message["delivered"], message["receivers"], message["topic"]) == (1, ["car"], "news/today")
    told = run("trace", message["id"]).output.splitlines()
    said = [line.partition("  ")[2] for line in told]
    assert said[0] == f"shop published {message['id']} to news/today at b1, 15 bytes"
    assert "car connected at b2; it was at b1" in said
    assert "b1 handed the session of car over to b2, with 1 message" in said
    assert said[-1].startswith(f"b2 delivered {message['id']} to car after ")
    assert said[-1].endswith("from another broker's store")
    assert "car connected at b1" in run("trace", "car").output
    assert run("trace", "nothing/here").exit_code == 1
    gone = run("status")
    assert gone.exit_code == 1 and "no broker answers on this host" in gone.output


@pytest.mark.live
def test_a_broker_of_the_file_that_is_not_in_the_network_need_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"

    async def look() -> tuple[Result, Result, Result]:
        network = write_network(tmp_path, local_network(1, durability="memory", console_token=TOKEN))
        async with running(network):
            # A port that the broker has not taken, now that it has its own.
            absent = f'[brokers.b2]\nat = ["b1"]\nmetrics_port = {free_ports(1)[0]}\n'
            path.write_text(path.read_text() + absent)
            status = await asyncio.to_thread(CliRunner().invoke, cli, ["status", str(path)])
            as_json = await asyncio.to_thread(CliRunner().invoke, cli, ["status", str(path), "--json"])
            url = f"http://127.0.0.1:{network.brokers['b1'].metrics_port}"
            one = await asyncio.to_thread(CliRunner().invoke, cli, ["status", str(path), "--broker", "b1"])
            assert one.exit_code == 0 and "b2" not in one.output, one.output
            return status, as_json, await asyncio.to_thread(CliRunner().invoke, cli, ["status", url])

    status, as_json, by_url = asyncio.run(look())
    assert status.exit_code == 0 and "not in network" in status.output, status.output
    assert [one["status"] for one in json.loads(as_json.output)] == ["ok", "not in network"]
    assert by_url.exit_code == 2 and "wants a token: give --token" in by_url.output


def test_without_records_nothing_can_be_traced_and_the_command_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(local_network(1))
    told = CliRunner().invoke(cli, ["trace", "news/#", str(tmp_path / "network.toml")])
    assert told.exit_code == 2 and "`roamq up --records FOLDER` records" in told.output


def test_a_token_is_not_too_short(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(local_network(1, extra='[console]\ntoken = "short"\n'))
    result = CliRunner().invoke(cli, ["status", str(tmp_path / "network.toml")])
    assert result.exit_code == 2 and "console.token: is shorter than 16 characters" in result.output
