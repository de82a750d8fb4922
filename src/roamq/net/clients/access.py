"""Access rules: who may publish and subscribe to which topics, and who may continue a session. The first rule that fits
decides."""

import re
from collections.abc import Iterable, Mapping
from re import Match
from typing import Final

from roamq.core.filters import Filter
from roamq.net.clients.mqtt.codec.topics import parse_share
from roamq.net.ops.settings import ANONYMOUS, ANYBODY, AccessRules, Rule
from roamq.net.outputs import Claims
from roamq.overlay.advertised import is_within

CACHE_SIZE: Final = 10_000
CACHED_CHARACTERS_MAX: Final = 512
"""Most characters of user, client and topic together whose answer is kept. Answers about longer ones are found anew, so
that nobody fills the memory."""
MARK: Final = re.compile(r"%c|%u|%\{([^{}/+#]+)\}")
"""The marks that a pattern of topics leaves open: the client id, the user name, a claim of the user's token."""
NOT_TAKEN: Final = "such topics are not published at this broker (`publishes`)"
_NOT_IN_A_LEVEL: Final = frozenset("+#/\0")
"""Characters that no level of a topic has, or that end a level."""


class Access:
    """The rules in force, with the answers given so far. All parts of a broker share one object."""

    def __init__(self, rules: AccessRules, publishes: Iterable[str] | None = None) -> None:
        """`publishes`: topic filters of all that may be published at this broker; None if any topic may be."""
        self._answers: dict[tuple[str, str, str, str, Claims], bool] = {}
        self._lists: list[list[Filter]] = []
        self._taken: dict[str, bool] = {}
        self.set_rules(rules)
        self.narrow(publishes)

    def set_rules(self, rules: AccessRules) -> None:
        self.rules = rules
        self.is_open = rules.rules == (Rule(),)
        """Whether everybody may do everything."""
        self.takes_all = self.is_open and not self._lists
        """Whether everybody may publish anything here."""
        self._answers.clear()

    def narrow(self, publishes: Iterable[str] | None) -> None:
        """Let clients publish at this broker only topics that one of these filters matches too; None changes
        nothing."""
        if publishes is not None:
            self._lists.append([Filter(topic) for topic in publishes])
            self._taken.clear()
            self.takes_all = False

    def takes(self, topic: str) -> bool:
        """Whether the network knows that the topic may be published at this broker."""
        if not self._lists:
            return True
        taken = self._taken.get(topic)
        if taken is None:
            asked = Filter(topic)
            taken = all(is_within(topics, asked) for topics in self._lists)
            if len(topic) <= CACHED_CHARACTERS_MAX:
                if len(self._taken) >= CACHE_SIZE:
                    self._taken.clear()
                self._taken[topic] = taken
        return taken

    def why_not(self, topic: str) -> str:
        """The reason why the topic may not be published here."""
        return "no rule allows this topic" if self.takes(topic) else NOT_TAKEN

    def may_publish(self, user: str | None, client: str, topic: str, claims: Claims = ()) -> bool:
        return self.takes(topic) and (self.is_open or self._answer("publish", user, client, topic, claims))

    def may_leave_will(self, user: str | None, client: str, topic: str, claims: Claims = ()) -> bool:
        """Whether the client may leave a will on this topic here: the rules for publications, and no topic of the
        server."""
        return self.takes(topic) and self.may_send_will(user, client, topic, claims)

    def may_send_will(self, user: str | None, client: str, topic: str, claims: Claims = ()) -> bool:
        """Whether the rules allow the will, at whatever broker its topic may be published: the session may have moved
        since CONNECT."""
        return not topic.startswith("$") and (
            self.is_open or self._answer("publish", user, client, topic, claims)
        )

    def may_subscribe(self, user: str | None, client: str, topic_filter: str, claims: Claims = ()) -> bool:
        """Whether the rules allow every topic that the subscription could match."""
        share = parse_share(topic_filter)
        topic_filter = share.topic_filter if share else topic_filter
        return self.is_open or self._answer("subscribe", user, client, topic_filter, claims)

    def may_continue(self, owner: str | None, user: str | None) -> bool:
        """Whether `user` may continue a session that `owner` began; None: no user name was given."""
        if owner == user:
            return True
        renamed_to = self.rules.renamed.get(owner or ANONYMOUS)
        return renamed_to is not None and renamed_to in (ANYBODY, user or ANONYMOUS)

    def former_name(self, owner: str | None, user: str | None) -> str | None:
        """The name that `user` had as the `owner` of a session. None if the name is the same, or if `user` may not
        continue the session."""
        return (owner or ANONYMOUS) if owner != user and self.may_continue(owner, user) else None

    def _answer(self, what: str, user: str | None, client: str, topic: str, claims: Claims) -> bool:
        key = (what, user or ANONYMOUS, client, topic, claims)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._decide(*key)
            if len(key[1]) + len(client) + len(topic) <= CACHED_CHARACTERS_MAX:
                if len(self._answers) >= CACHE_SIZE:
                    self._answers.clear()
                self._answers[key] = answer
        return answer

    def _decide(self, what: str, user: str, client: str, topic: str, claims: Claims) -> bool:
        asked = Filter(topic)
        for rule in self.rules.rules:
            if rule.user not in (ANYBODY, user) or not _has(claims, rule.claims):
                continue
            for pattern in rule.topics:
                mine = _pattern_for(pattern, user, client, claims, forbids=what not in rule.may)
                if mine is None:
                    continue
                if mine.covers(asked):
                    return what in rule.may
                if what == "subscribe" and what not in rule.may and mine.overlaps(asked):
                    return False  # a part of the asked filter is forbidden
        return False


def claims_in(pattern: str) -> set[str]:
    """The names of the claims that a pattern of topics asks for."""
    return {name for name in MARK.findall(pattern) if name}


def claims_asked(rules: AccessRules) -> frozenset[str]:
    """The claims of tokens that the rules look at."""
    patterns = (pattern for rule in rules.rules for pattern in rule.topics)
    return frozenset().union(*map(claims_in, patterns), *(rule.claims for rule in rules.rules))


def claim_values(claims: Claims, name: str) -> tuple[str, ...]:
    return next((values for known, values in claims if known == name), ())


def _has(claims: Claims, wanted: Mapping[str, str]) -> bool:
    return all(value in claim_values(claims, name) for name, value in wanted.items())


def _pattern_for(pattern: str, user: str, client: str, claims: Claims, *, forbids: bool) -> Filter | None:
    """The pattern with its marks filled in; None if no topic fits it.

    A name is text, never a wildcard, and it lies within one level. A name with `+` or `#` equals no level of a topic,
    and a name with `/` would reach into levels that belong to others: a rule that allows ignores such a name. A rule
    that forbids takes the levels of a name with `/` as they are, so that nobody slips past it. A claim that a client
    does not have, or has several values of, fills no mark.
    """
    names: list[str | None] = []

    def fill(mark: Match[str]) -> str:
        values = {"%c": (client,), "%u": (user,)}.get(mark[0]) or claim_values(claims, mark[1] or "")
        names.append(values[0] if len(values) == 1 else None)
        return names[-1] or ""

    filled = MARK.sub(fill, pattern)  # in one pass: a user name may hold the text %c
    if None in names:
        return None
    found = _NOT_IN_A_LEVEL.intersection("".join(filter(None, names)))
    if found - ({"/"} if forbids else set()):
        return None
    if filled.startswith("$") and not pattern.startswith("$") and not forbids:
        return None  # a rule opens topics of the server by name only
    return Filter(filled)
