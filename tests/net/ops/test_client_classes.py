"""Classes of clients in a network's file: whom a rule fits, and what is refused by name."""

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import ClientId
from roamq.net.clients.classes import class_of, is_within
from roamq.net.clients.mqtt.codec import Connect, Properties
from roamq.net.ops.configuration import parse_network
from roamq.net.ops.settings import ClientClass, Settings

BUSES = ClientClass(name="buses", scheme="proactive", user_property={"kind": "bus"})
VANS = ClientClass(name="vans", scheme="standard", user="fleet", client_id="van-*")
OTHERS = ClientClass(name="others", scheme="logging", user="anonymous")
ALL = (BUSES, VANS, OTHERS)


@pytest.mark.parametrize(
    ("client", "user", "properties", "wanted"),
    [
        ("van-1", "fleet", (), "vans"),
        ("van-1", "fleet", (("kind", "bus"),), "buses"),
        ("van-1", "fleet", (("kind", "tram"), ("kind", "bus")), "buses"),
        ("car-1", "fleet", (), ""),
        ("van-1", None, (), "others"),
        ("van-1", "ann", (), ""),
    ],
)
def test_the_first_class_whose_rule_fits_decides(
    client: str, user: str | None, properties: tuple[tuple[str, str], ...], wanted: str
) -> None:
    connect = Connect(client_id=client, properties=Properties(user_properties=properties))
    assert class_of(ALL, ClientId(client), user, connect) == wanted


def rule(**fields: object) -> ClientClass:
    return ClientClass(name="x", scheme="standard", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("narrow", "wide", "is_in"),
    [
        (rule(client_id="bus-1"), rule(client_id="bus-*"), True),
        (rule(client_id="bus-1*"), rule(client_id="bus-*"), True),
        (rule(client_id="bus-*"), rule(client_id="bus-1*"), False),
        (rule(client_id="b?s"), rule(client_id="b*s"), False),  # it is, but that is not sure by looking
        (rule(user="ann", client_id="bus-1"), rule(user="ann"), True),
        (rule(user="ann"), rule(user="ann", client_id="bus-1"), False),
        (rule(user="ann"), rule(user="bob"), False),
        (rule(user_property={"a": "1", "b": "2"}), rule(user_property={"a": "1"}), True),
        (rule(user_property={"a": "1"}), rule(user_property={"a": "2"}), False),
    ],
)
def test_a_rule_within_another(narrow: ClientClass, wide: ClientClass, is_in: bool) -> None:
    assert is_within(narrow, wide) is is_in


NETWORK = """
[storage]
durability = "memory"
[network]
scheme = "standard"
{classes}
[access]
users = {{}}
[brokers.b1]
"""


def settings(*classes: str) -> Settings:
    text = "".join(f"[[network.classes]]\n{one}\n" for one in classes)
    return parse_network(NETWORK.format(classes=text)).settings("b1")


def test_classes_are_read() -> None:
    read = settings(
        'name = "a"\nscheme = "proactive"\noptions = { neighbor_limit = 2 }\nclient_id = "a*"',
        'name = "b"\nscheme = "proactive"\nuser_property = { kind = "b" }',
    )
    assert [(one.name, one.scheme, one.options) for one in read.classes] == [
        ("a", "proactive", {"neighbor_limit": 2}),
        ("b", "proactive", {}),
    ]


A = 'name = "a"\nclient_id = "a*"\n'


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        (
            [A + 'scheme = "proactiv"'],
            r"classes\[0\].scheme: unknown scheme 'proactiv'; did you mean 'proactive'",
        ),
        (
            [A + 'scheme = "standard"\noptions = { log_size = 5 }'],
            r"options.log_size: 'standard' has no such option; it is an option of logging",
        ),
        (
            [A + 'scheme = "logging"\noptions = { log_size = 0 }'],
            r"classes\[0\].options.log_size: 0 events",
        ),
        (
            [A + 'scheme = "logging"\noptions = { buffer_bytes = 5 }'],
            "options.buffer_bytes: bounds what the broker",
        ),
        ([A + 'scheme = "home-broker"'], "network.classes.a.scheme: 'home-broker' keeps a context at home"),
        ([A + 'scheme = "logging"\npattern = "x"'], r"classes\[0\].pattern: unknown field"),
        (['name = "a"\nscheme = "logging"'], "class 'a' fits every client"),
        (
            [A + 'scheme = "logging"', A + 'scheme = "standard"'],
            r"classes\[1\].name: 'a' is the name of another",
        ),
        (
            [A + 'scheme = "logging"', 'name = "b"\nscheme = "standard"\nclient_id = "ab"'],
            r"classes\[1\]: no client can be of class 'b': all that it fits are of class 'a' before it",
        ),
        (
            ['name = "b"\nscheme = "logging"\nuser = "bob"'],
            "no client can be of class 'b': there is no user 'bob'",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(classes: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings(*classes)
