"""Plays sequences against brokers on loopback, each connection at the next of them."""

from random import Random

from roamq.net.clients.mqtt.codec import Properties, Version, Will
from tests.net.reference.actions import CLIENTS, TOPICS, draw
from tests.net.reference.play import DisagreementError, Play
from tests.net.turns import TurnedLine, Turns, come_to_rest


class LiveWorld:
    """Live brokers as a `World`. Time is not simulated: sequences have nothing in them that takes long."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.failures: list[Exception] = []
        self.lines: list[TurnedLine] = []

    def connect(
        self,
        client: str,
        *,
        clean: bool,
        expiry: int,
        will: Will | None,
        version: Version,
        receive_maximum: int | None,
        topic_alias_maximum: int | None,
        answers: bool,
        wait: None,
    ) -> TurnedLine:
        asked = Properties()
        if version is Version.V5:
            asked = Properties(receive_maximum=receive_maximum, topic_alias_maximum=topic_alias_maximum)
        line = self.turns.connect(
            client,
            clean=clean,
            expiry=expiry,
            will=will,
            version=version,
            answers=answers,
            properties=asked,
            wait=wait,
        )
        self.lines.append(line)
        return line

    def run(self, seconds: float) -> None:
        come_to_rest(self.turns, self.lines)
        self.lines = [line for line in self.lines if not line.is_closed]


def explore_live(turns: Turns, seed: int, length: int = 12) -> str | None:
    """Play the sequence of a seed; on a disagreement, what it is and the sequence."""
    actions = draw(Random(seed), length, is_live=True, more=Random(f"more {seed}"))
    world = LiveWorld(turns)
    said = None
    try:
        Play(world).run(actions)
    except DisagreementError as found:
        steps = "\n".join(f"  {action}" for action in actions)
        said = f"seed {seed}: {found}\n{steps}"
    for line in world.lines:
        line.drop()
    clear(turns)
    return said


def clear(turns: Turns) -> None:
    """The next sequence finds neither sessions nor retained messages."""
    lines = [turns.connect(client, clean=True, expiry=0) for client in CLIENTS]
    come_to_rest(turns, lines)
    for topic in TOPICS:
        lines[0].publish(topic, b"", 1, retain=True)
    come_to_rest(turns, lines)
    for line in lines:
        line.disconnect()
