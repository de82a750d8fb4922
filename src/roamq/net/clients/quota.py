"""The quota of sessions at one broker."""

from typing import Final

from roamq.broker.contexts import Contexts
from roamq.core.context import Mode
from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import Will
from roamq.net.clients.mqtt.state import SESSION_BYTES, SessionState, will_bytes

RECOUNT_S: Final = 1.0
LEFT_BEHIND_MAX: Final = 10_000
"""Most sessions that may have been claimed at the word of clients that did not wait for them. Above it, a client's word
alone does not claim a session."""
NO_ROOM: Final = {
    "sessions_max": "this broker keeps no more sessions",
    "outbox_messages_bytes_max": "too much waits for a broker that is down",
    "left_behind_max": "too many sessions were claimed that have not come",
}
"""Quota that keeps a client out -> the text for the client."""


def count_sessions(contexts: Contexts) -> int:
    """Count the sessions that live at this broker; a passive copy is none."""
    return sum(context.mode is not Mode.PASSIVE for context in contexts.values())


class SessionQuota:
    """Says whether one more session may begin, or a session may grow. It counts at most once a second: a refusal must
    cost little."""

    def __init__(self, contexts: Contexts, sessions_max: int, bytes_max: int) -> None:
        self.sessions_max = sessions_max
        self.bytes_max = bytes_max
        self.left_behind_max = LEFT_BEHIND_MAX
        self.shapes_max = 0
        """In how many ways topic filters may place their wildcards."""
        self._contexts = contexts
        self._counted_at = float("-inf")
        self._sessions = 0
        self._weighed_at = float("-inf")
        self._bytes = 0

    def has_room(self, now: float) -> bool:
        if len(self._contexts) < self.sessions_max:
            return True
        if now - self._counted_at >= RECOUNT_S:
            self._counted_at = now
            self._sessions = count_sessions(self._contexts)
        return self._sessions < self.sessions_max

    def has_room_for(self, cost_bytes: int, now: float) -> bool:
        """Whether all sessions together may take this many more bytes of memory; if so, they are counted as taken."""
        if now - self._weighed_at >= RECOUNT_S:
            self._weighed_at = now
            self._bytes = self.weigh()
        if self._bytes + cost_bytes > self.bytes_max:
            return False
        self._bytes += cost_bytes
        return True

    def has_room_for_shape(self, shape: str, begun: set[str]) -> bool:
        """Whether a topic filter may place its wildcards in this way; `begun`: other ways that the same packet has
        begun."""
        shapes = self._contexts.watched.index.shapes
        return not shape or shape in shapes or shape in begun or len(shapes) + len(begun) < self.shapes_max

    def weigh(self) -> int:
        """Bytes of memory that all sessions take; stored events are charged elsewhere."""
        total = 0
        for context in self._contexts.values():
            session = context.session
            if isinstance(session, SessionState):
                # `cost_bytes` without a call: a hundred thousand sessions are weighed in one step
                total += SESSION_BYTES + session.subscription_bytes
                if session.will is not None:
                    total += will_bytes(session.will)
        return total

    def begin_for(self, client: ClientId, will: Will | None, now: float) -> bool:
        """Count a session that begins for the client. False if there is no room; a session that is here counts
        already."""
        context = self._contexts.get(client)
        if context is not None and context.mode is not Mode.PASSIVE:
            return True
        has_room = self.has_room(now) and self.has_room_for(SESSION_BYTES + will_bytes(will), now)
        if has_room:
            self._sessions += 1
        return has_room
