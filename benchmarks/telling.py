"""How long a broker that is back holds the event loops, its own and its neighbour's, while it is told everything.

    python -m benchmarks.telling [sessions] [retained]

b1 and b2 are machines without sockets. All sessions that b2 knew end while it is down, as many others begin with other
subscriptions, and b1 cuts it off. Then b2 is back (`cut off`); after that it is back with an empty store (`store
lost`). Printed is the longest step of each kind, in processor time:

    begin     the input of b1 that hears that b2 is back
    share     one turn in which b1 makes some of what it has to tell
    heed      one turn of b2, which heeds up to 250 frames
    acked     the input of b1 that hears what b2 has
"""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import (
    Connect,
    Disconnect,
    Packet,
    Properties,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.host import LINK_TIMER
from roamq.net.links.connection import CHUNK_FRAMES
from roamq.net.links.protocol import Frame
from roamq.net.machine import Machine
from roamq.net.ops.settings import Quotas, Settings

HERE, BACK = BrokerId("b1"), BrokerId("b2")
STEP_S: Final = 0.0005
QUOTAS: Final = Quotas(
    outbox_messages_bytes_max=1_000_000,
    retained_per_client_max=1_000_000,
    retained_bytes_per_client_max=1 << 40,
    outbox_bytes_max=1 << 40,
)


class Telling:
    """The two brokers, and the longest step of each kind."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.here, self.back = (
            Machine(
                Settings(
                    me=me, brokers=(HERE, BACK), links=((HERE, BACK),), scheme="standard", quotas=QUOTAS
                ),
                self.now,
            )
            for me in (HERE, BACK)
        )
        self.longest_ms: dict[str, float] = {}
        self._connections = 0
        self.here.link_acked(BACK, 0, self.now)
        self.back.link_acked(HERE, 0, self.now)
        self._answers()
        self.carry(" ")

    def client(self, name: str, *filters: str) -> int:
        """A client is let in and subscribes; gives the number of its connection."""
        self._connections = number = self._connections + 1
        self.here.opened(number, self.now, "0:mqtt", "127.0.0.1:1")
        lasting = Properties(session_expiry_interval=9999)
        self.say(number, Connect(client_id=name, properties=lasting))
        for login in self.here.take_outputs().logins:
            self.here.authenticated(login.connection, "u", self.now, allowed=True)
        if filters:
            wanted = tuple(SubscriptionRequest(topic_filter, 1) for topic_filter in filters)
            self.say(number, Subscribe(1, wanted))
        return number

    def say(self, number: int, packet: Packet) -> None:
        self.now += STEP_S
        self.here.received(number, encode(packet, Version.V5), self.now)

    def measure(self, what: str, act: Callable[..., Any], *details: Any) -> None:
        began = time.thread_time()
        act(*details)
        taken_ms = (time.thread_time() - began) * 1000
        if not what.startswith(" "):
            self.longest_ms[what] = max(taken_ms, self.longest_ms.get(what, 0.0))

    def carry(self, what: str) -> None:
        """Let all that b1 has for b2 arrive, in pieces as links make them; `what` is measured."""
        while True:
            frames = self.here.take_outputs().frames.get(BACK, [])
            for at in range(0, len(frames), CHUNK_FRAMES):
                self.measure(f"{what} heed", self._heed, frames[at : at + CHUNK_FRAMES])
                self._answers()
            if frames:
                self.measure(f"{what} acked", self.here.link_acked, BACK, frames[-1][0], self.now)
            if BACK in self.here.outboxes.behind:
                self.now += STEP_S
                self.measure(f"{what} share", self.here.timer, (LINK_TIMER, BACK), self.now)
            elif not frames:
                return

    def come_back(self, what: str, received: int) -> None:
        """b2 says that it has received so much."""
        waiting = list(self.here.outboxes.frames[BACK])
        gc.collect()
        self.measure(f"{what} begin", self.here.link_acked, BACK, received, self.now)
        for at in range(0, len(waiting), CHUNK_FRAMES):
            self.measure(f"{what} heed", self._heed, waiting[at : at + CHUNK_FRAMES])
            self._answers()
        self.carry(what)

    def _heed(self, frames: list[Frame]) -> None:
        for sequence, data in frames:
            self.back.link_received(HERE, sequence, data, self.now)

    def _answers(self) -> None:
        for sequence, data in self.back.take_outputs().frames.get(HERE, []):
            self.here.link_received(BACK, sequence, data, self.now)
            self.back.link_acked(HERE, sequence, self.now)


def main(argv: Sequence[str] = ()) -> dict[str, float]:
    sessions, retained = (int(value) for value in (*argv, "10000", "100000")[:2])
    gc.disable()  # brokers collect little at a time; here it would come into one step or the other
    told = Telling()
    former = [told.client(f"former-{number}", f"former/topic/{number}") for number in range(sessions)]
    told.carry(" ")
    received = told.here.outboxes.sent[BACK]
    for number in former:
        told.say(number, Disconnect(properties=Properties(session_expiry_interval=0)))
    for number in range(sessions):
        told.client(f"new-{number}", f"new/topic/{number}")
    assert told.here.outboxes.is_cut_off(BACK), "too few sessions to be cut off"
    told.come_back("cut off", received)
    assert len(told.back.directory) == sessions
    publisher = told.client("publisher")
    for number in range(retained):
        told.say(publisher, Publish(f"retained/{number}", bytes(20), retain=True))
    told.carry(" ")
    told.come_back("store lost", received - 1)
    gc.enable()
    print(f"{sessions:,} sessions, {retained:,} retained messages; the longest step of each kind:")
    for what, taken_ms in told.longest_ms.items():
        print(f"  {what:<18} {taken_ms:6.1f} ms")
    return told.longest_ms


if __name__ == "__main__":
    main(sys.argv[1:])
