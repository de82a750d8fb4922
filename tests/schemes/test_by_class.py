"""Several schemes at one broker: what each of them says is its own, and contexts go from one to the other."""

from typing import Any

import pytest

from roamq.broker.broker import Broker
from roamq.build import SchemeChoice, build_broker, change_schemes
from roamq.core.context import Mode
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message, Routed
from roamq.overlay.topology import Topology
from roamq.schemes.base import SchemeOptions
from roamq.schemes.by_class import ByClass
from roamq.schemes.messages import copies, handover, logging, neighbors, prefetching, prehandoff
from roamq.schemes.messages.classes import Classed
from roamq.schemes.messages.copies import Delete, PassiveCopy
from roamq.schemes.messages.handover import ContextRequest
from roamq.schemes.proactive import ProActive
from roamq.schemes.proactive_options import ProActiveOptions
from roamq.schemes.table import scheme_named, scheme_names, speaker_of
from tests.support.recording_host import RecordingHost

B1, B2, CLIENT = BrokerId("b1"), BrokerId("b2"), ClientId("c1")
WARM: dict[str, Any] = {"warm_start": (("b1", "b2", 1.0, 0.0),)}


def world(scheme: str = "proactive", **options: object) -> tuple[RecordingHost, Broker]:
    host = RecordingHost()
    broker = build_broker(B1, host, Topology(("b1", "b2"), (("b1", "b2"),)), scheme=scheme, options=options)
    return host, broker


def sent(host: RecordingHost) -> list[Message]:
    """What was said to the other broker, and forgotten here."""
    said = [
        effect[2].message for effect in host.effects if effect[0] == "send" and isinstance(effect[2], Routed)
    ]
    host.effects.clear()
    return said


def test_every_message_of_a_scheme_is_of_one_scheme_alone() -> None:
    of_schemes = {
        kind
        for module in (copies, logging, neighbors, prefetching, prehandoff)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and issubclass(kind, Message)
    } - {prehandoff.PrehandoffMessage}
    spoken = [kind for name in scheme_names() for kind in dict.fromkeys(scheme_named(name).scheme.messages)]

    assert of_schemes <= set(spoken)
    assert {speaker_of(kind) for kind in of_schemes} == {"proactive", "logging", "prefetching", "prehandoff"}
    assert speaker_of(handover.ContextRequest) is None


def test_a_connected_client_goes_to_another_scheme_and_its_copies_are_deleted() -> None:
    host, broker = world(**WARM)
    broker.on_connect(CLIENT, None)
    broker.on_subscribe(CLIENT, Filter.parse("t"))
    context = broker.contexts[CLIENT]
    epoch = context.epoch
    assert [type(message) for message in sent(host)] == [PassiveCopy]

    change_schemes(broker, {"": SchemeChoice(scheme="standard", options=SchemeOptions())})

    assert sent(host) == [Delete(client=CLIENT, epoch=epoch)]
    assert broker.contexts[CLIENT] is context
    assert (context.under, context.epoch, context.mode) == ("standard", epoch, Mode.SERVING)
    assert list(context.filters) == [Filter.parse("t")]


def test_a_client_that_is_away_keeps_its_active_copies_until_it_is_back() -> None:
    host, broker = world(**WARM)
    broker.on_connect(CLIENT, None)
    broker.on_subscribe(CLIENT, Filter.parse("t"))
    broker.on_disconnect(CLIENT, "gone")
    sent(host)

    change_schemes(broker, {"": SchemeChoice(scheme="standard", options=SchemeOptions())})
    assert (sent(host), broker.contexts[CLIENT].under) == ([], "proactive")

    broker.on_connect(CLIENT, B1)
    assert [type(message).__name__ for message in sent(host)] == ["Deactivate", "Delete"]
    assert broker.contexts[CLIENT].under == "standard"


def test_what_a_scheme_of_a_class_says_is_marked_with_the_class() -> None:
    host, broker = world("standard")
    options = ProActiveOptions(**WARM)
    host.classes[CLIENT] = "buses"
    change_schemes(
        broker,
        {
            "": SchemeChoice(scheme="proactive", options=ProActiveOptions()),
            "buses": SchemeChoice(scheme="proactive", options=options, client_class="buses"),
        },
    )
    scheme = broker.scheme
    assert isinstance(scheme, ByClass)
    made = scheme.schemes["proactive/buses"]
    assert isinstance(made, ProActive)
    made.neighborhood.graph.warm_start(options.warm_start, 0.0)
    broker.on_connect(CLIENT, None)
    broker.on_subscribe(CLIENT, Filter.parse("t"))

    (message,) = sent(host)
    assert isinstance(message, Classed)
    assert (message.scheme, type(message.message)) == ("proactive/buses", PassiveCopy)


def test_a_broker_that_has_not_read_the_file_makes_the_scheme_that_its_neighbour_has() -> None:
    _, one = world("standard")
    host, broker = world("standard")
    copy = PassiveCopy(
        client=CLIENT, epoch=one.contexts.new_epoch(), filters=(Filter.parse("t"),), session=None
    )

    broker.on_message(B2, Routed(to=B1, sender=B2, message=Classed(scheme="proactive/buses", message=copy)))

    scheme = broker.scheme
    assert isinstance(scheme, ByClass)
    assert [context.client for context in scheme.held()] == [CLIENT]
    # The client comes, and is not of that class here: the copy is used or dropped, and its context asked for.
    sent(host)
    broker.on_connect(CLIENT, B2)
    assert [type(message) for message in sent(host)][-1] is ContextRequest
    assert [context.client for context in scheme.held()] == [CLIENT]


def test_home_brokers_are_refused_before_anything_is_touched() -> None:
    host, broker = world("home-broker")
    broker.on_connect(CLIENT, None)
    host.effects.clear()
    before = broker.scheme

    with pytest.raises(ConfigError, match="'home-broker' keeps a context at home"):
        change_schemes(broker, {"": SchemeChoice(scheme="standard", options=SchemeOptions())})

    assert broker.scheme is before
    assert host.effects == []
