"""Alarms: what an operator should look at now. A lasting condition raises one; its end clears it.

About once a second `Alarms` looks at the broker's state and counts, and at none of its many clients. Raised and cleared
alarms are log lines and happenings (`activity.py`), rows of `/api/status`, and the metric `roamq_alarm`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from roamq.core.events import BrokerId
from roamq.net.clients.quota import count_sessions
from roamq.net.ops.activity import Activity
from roamq.net.shell import Shell

LASTS_S: Final = 3.0
"""Seconds that a link may be down before that is an alarm: brokers restart."""
WITHIN_S: Final = 60.0
"""Counts are compared with those of this many seconds ago."""
FULL_SHARE: Final = 0.8
GUESSES_MAX: Final = 20
"""Number of refused logins within `WITHIN_S` that raises an alarm."""
NAMED_MAX: Final = 64
"""In larger networks an alarm does not name the brokers behind a broker that is down: finding all paths takes time."""
WARNING: Final = "warning"
CRITICAL: Final = "critical"


class Alarm(NamedTuple):
    """A lasting condition, and since when it lasts."""

    alarm: str
    """The kind of the alarm, such as link_down."""
    about: str | None
    """The link or quota that the alarm is about."""
    level: str
    """The level of the alarm: warning or critical."""
    text: str
    since: float
    """Seconds since 1970."""


class _Condition(NamedTuple):
    alarm: str
    about: str | None
    level: str
    text: str
    lasts_s: float = 0.0


class Alarms:
    """The alarms of one broker."""

    def __init__(self, shell: Shell, activity: Activity, condition: Callable[[], dict[str, Any]]) -> None:
        """`condition` returns the state of the broker (`Server.condition`)."""
        self._shell = shell
        self._activity = activity
        self._condition = condition
        self._since: dict[tuple[str, str | None], float] = {}
        self._raised: dict[tuple[str, str | None], Alarm] = {}
        self._counts: deque[tuple[float, dict[str, int]]] = deque()

    def raised(self) -> list[Alarm]:
        """Returns the alarms that last, the critical ones first."""
        return sorted(self._raised.values(), key=lambda one: (one.level != CRITICAL, one.since))

    def tick(self, now: float) -> None:
        """Raises and clears alarms; called about once a second."""
        self._counts.append((now, dict(self._shell.counts)))
        while len(self._counts) > 1 and self._counts[1][0] <= now - WITHIN_S:
            self._counts.popleft()
        found = {(one.alarm, one.about): one for one in self._conditions()}
        self._since = {key: self._since.get(key, now) for key in found}
        for key, one in found.items():
            if now - self._since[key] < one.lasts_s:
                continue
            if key not in self._raised:
                self._tell(now, "alarm", one.text, one)
            self._raised[key] = Alarm(one.alarm, one.about, one.level, one.text, self._since[key])
        for key in self._raised.keys() - found.keys():
            over = self._raised.pop(key)
            self._tell(now, "cleared", f"over: {over.text}", over)

    def _tell(self, now: float, kind: str, text: str, one: "_Condition | Alarm") -> None:
        level = logging.INFO if kind == "cleared" else logging.WARNING
        self._activity.happened(
            now, kind, None, f"{kind}: {text}", level=level, alarm=one.alarm, about=one.about
        )

    def _conditions(self) -> Iterator[_Condition]:
        health, machine = self._condition(), self._shell.live.machine
        contexts, outboxes, quotas = machine.broker.contexts, machine.outboxes, machine.settings.quotas
        if health["status"] == "stalled":
            reason = f"the journal cannot be written: {health.get('reason')}"
            yield _Condition("stalled", None, CRITICAL, f"the broker answers nobody, {reason}")
        for peer in health["links_down"]:
            text = f"{peer} is not reachable; {len(outboxes.frames.get(peer, ())):,} frames wait for it"
            if behind := self._behind(peer):
                text += f"; what is for {', '.join(behind)} goes through it, and waits as well"
            if count := machine.broker.scheme.parts.awaited().get(peer):
                text += f"; {count:,} sessions here wait for messages that it has for them"
            yield _Condition("link_down", peer, CRITICAL, text, LASTS_S)
        for peer in sorted(filter(outboxes.is_cut_off, outboxes.frames)):
            text = (
                f"{peer} is cut off: it is told what it misses when it is back; forget it if it will not be"
            )
            yield _Condition("cut_off", peer, CRITICAL, text)
        for peer, carriers in health.get("links_detoured", {}).items():
            text = f"the link with {peer} runs through {', '.join(carriers)}: there is no direct connection"
            yield _Condition("link_detour", peer, WARNING, text)
        if health["status"] == "draining":
            yield _Condition("draining", None, WARNING, "the broker is draining; a restart ends that")
        if "snapshot" in health:
            yield _Condition(
                "no_snapshot", None, WARNING, f"no snapshot, the journal grows: {health['snapshot']}"
            )
        if "records" in health:
            yield _Condition("no_records", None, WARNING, f"records cannot be written: {health['records']}")
        yield from _filling("quotas.store_bytes_max", contexts.buffer.bytes, quotas.store_bytes_max)
        if len(contexts) >= FULL_SHARE * quotas.sessions_max:
            yield from _filling("quotas.sessions_max", count_sessions(contexts), quotas.sessions_max)
        for peer, size in outboxes.bytes.items():
            yield from _filling(f"quotas.outbox_bytes_max for {peer}", size, quotas.outbox_bytes_max)
        if warning := self._activity.forecast.warning():
            yield _Condition("saturating", None, WARNING, warning)
        if count := self._lately("dropped"):
            text = f"{count:,} messages were dropped within a minute; `roamq trace` says which"
            yield _Condition("dropping", None, CRITICAL, text)
        if count := self._lately("fault"):
            yield _Condition(
                "fault", None, CRITICAL, f"{count:,} unexpected internal errors within a minute: see the log"
            )
        if (count := self._lately("login_refused")) >= GUESSES_MAX:
            yield _Condition("logins", None, WARNING, f"{count:,} logins were refused within a minute")

    def _behind(self, peer: str) -> list[BrokerId]:
        """Brokers that this one reaches through a neighbour; with direct paths, only if it and they joined later."""
        machine = self._shell.live.machine
        names = machine.others.names
        if len(names) > NAMED_MAX:
            return []
        return [name for name in names if name != peer and machine.broker.router.next_hop(name) == peer]

    def _lately(self, name: str) -> int:
        """Returns how much the count of this name has grown within the last minute."""
        return self._shell.counts[name] - self._counts[0][1].get(name, 0)


def _filling(quota: str, used: int, allowed: int) -> Iterator[_Condition]:
    if allowed and used >= FULL_SHARE * allowed:
        yield _Condition("filling", quota, WARNING, f"{quota}: {used:,} of {allowed:,} are used")
