"""Access rules: who may publish and subscribe to what. The first rule that fits decides."""

from roamq.core.filters import Filter
from roamq.net.mqtt.codec.topics import parse_share
from roamq.net.settings import AccessRules, Rule

ANONYMOUS = "anonymous"
CACHE_SIZE = 10_000


class Access:
    """The rules in force, with the answers given so far."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules
        self._open = rules.rules == (Rule(),)
        self._answers: dict[tuple[str, str, str, str], bool] = {}

    def may_publish(self, user: str | None, client: str, topic: str) -> bool:
        return self._open or self._answer("publish", user, client, topic)

    def may_subscribe(self, user: str | None, client: str, topic_filter: str) -> bool:
        """A subscription is allowed if every topic it could match is."""
        share = parse_share(topic_filter)
        return self._open or self._answer(
            "subscribe", user, client, share.topic_filter if share else topic_filter
        )

    def _answer(self, what: str, user: str | None, client: str, topic: str) -> bool:
        key = (what, user or ANONYMOUS, client, topic)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= CACHE_SIZE:
                self._answers.clear()
            answer = self._answers[key] = self._decide(*key)
        return answer

    def _decide(self, what: str, user: str, client: str, topic: str) -> bool:
        asked = Filter(topic)
        for rule in self.rules.rules:
            if rule.user not in ("*", user):
                continue
            for pattern in rule.topics:
                mine = Filter(pattern.replace("%c", client).replace("%u", user))
                if mine.covers(asked):
                    return what in rule.may
                if what == "subscribe" and what not in rule.may and mine.overlaps(asked):
                    return False  # part of what is asked for is forbidden
        return False
