"""Delivery predictabilities: how likely a broker is to meet another one soon, learned from its encounters (PRoPHET).

Sources: RFC 6693, section 2.1.2 (the three equations) and section 3.3 (the constants); A. Lindgren, A. Doria,
O. Schelén, Probabilistic routing in intermittently connected networks, 2003 (ageing of 0.98 in a unit of time).
P(A, B) grows when A meets B (Eq. 1), shrinks while they do not meet (Eq. 2), and is at least a part of P(A, C) P(C, B)
if A has met C (Eq. 3). The RFC leaves two values to the network: its unit of time, and the typical interval between
encounters. docs/drip.md, choice 0097, says what we chose.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.manet.protocol.messages import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ProphetConstants:
    """The constants of PRoPHET, with the values that RFC 6693 recommends where it recommends one."""

    encounter_max: float = 0.7
    """P_encounter_max: the part of the way to 1 that an encounter after the typical interval adds."""
    encounter_first: float = 0.5
    """P_encounter_first: the predictability after the first encounter."""
    first_threshold: float = 0.1
    """P_first_threshold: a smaller predictability is forgotten, and the next encounter counts as a first one."""
    beta: float = 0.9
    """The weight of the predictability that another broker brings about (Eq. 3)."""
    gamma: float = 0.999
    """The factor by which a predictability falls in one unit of time."""
    delta: float = 0.01
    """No predictability comes nearer to 1 than this."""
    unit_s: Seconds = 0.05
    """The unit of time of gamma: 0.999 in 50 ms is the 0.98 in a second of the paper of 2003."""
    typical_s: Seconds = 20.0
    """I_typ: the typical interval between two encounters of the same brokers."""
    exchange_s: Seconds = 4.0
    """Brokers that stay in contact exchange their predictabilities this often."""

    def __post_init__(self) -> None:
        for name in ("encounter_max", "encounter_first", "first_threshold", "beta", "gamma", "delta"):
            value: float = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{name} must be from 0 to 1, got {value}")
        if min(self.unit_s, self.typical_s, self.exchange_s) <= 0:
            raise ConfigError(f"unit_s, typical_s and exchange_s must be positive, got {self}")


class Predictabilities:
    """The delivery predictabilities of one broker."""

    def __init__(self, constants: ProphetConstants) -> None:
        self.constants = constants
        self._known: dict[NodeId, float] = {}
        self._met_at: dict[NodeId, Seconds] = {}
        self._aged_at: Seconds = 0.0

    def of(self, broker: NodeId) -> float:
        return self._known.get(broker, 0.0)

    def exchange_due(self, peer: NodeId, now: Seconds) -> bool:
        return now - self._met_at.get(peer, float("-inf")) >= self.constants.exchange_s

    def told(self, now: Seconds) -> dict[NodeId, float]:
        """Returns all predictabilities as they are now, to tell a peer."""
        self.age(now)
        return dict(self._known)

    def age(self, now: Seconds) -> None:
        """Applies Eq. 2 to all predictabilities, and forgets those that are now smaller than the threshold."""
        constants = self.constants
        left = constants.gamma ** ((now - self._aged_at) / constants.unit_s)
        self._aged_at = now
        aged = ((broker, left * value) for broker, value in self._known.items())
        self._known = {broker: value for broker, value in aged if value >= constants.first_threshold}

    def met(self, peer: NodeId, theirs: Mapping[NodeId, float], me: NodeId, now: Seconds) -> None:
        """Applies Eq. 1 and 3: this broker, `me`, has met `peer`, which told its own predictabilities."""
        self.age(now)
        self._known[peer] = self._after_encounter(peer, now)
        self._met_at[peer] = now
        through = self._known[peer] * self.constants.beta
        for broker, value in theirs.items():  # Eq. 3
            reached = through * value
            if broker not in (me, peer) and reached >= self.constants.first_threshold:
                self._known[broker] = max(self.of(broker), reached)

    def _after_encounter(self, peer: NodeId, now: Seconds) -> float:
        """Applies Eq. 1. An encounter soon after the last one adds less: it may be the same one, interrupted."""
        constants = self.constants
        if peer not in self._known:
            return constants.encounter_first
        since_s = now - self._met_at.get(peer, float("-inf"))
        adds = constants.encounter_max * min(1.0, since_s / constants.typical_s)
        return self._known[peer] + max(0.0, 1.0 - constants.delta - self._known[peer]) * adds
