"""The parameters of pro-active caching."""

from dataclasses import dataclass

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.schemes.base import SchemeOptions
from roamq.schemes.parts.neighbors import Row, rows_of
from roamq.schemes.parts.own_steps import Care
from roamq.schemes.reactive import AS_PUBLISHED

FALLBACKS = {"standard": Care(), "reactive": AS_PUBLISHED}
"""The precautions of the transfer of a context for which no copy waits: without loss, or as [PRO] section 1 describes
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProActiveOptions(SchemeOptions):
    """Parameters of pro-active caching."""

    fallback: str = "standard"
    """The transfer where there is no copy: the lossless 'standard' hand-over, or the paper's own 'reactive'
    transfer."""
    warm_start: tuple[Row, ...] = ()
    """Edges known from the beginning: rows of (from, to, weight, last seen)."""
    neighbor_lifetime_s: Seconds | None = None
    """Seconds after which the broker forgets an edge that no client crossed; None to keep it."""
    neighbor_limit: int | None = None
    """The number of neighbors that a broker keeps at most: the least recently used leave first."""
    outlier_crossings: int = 0
    """An edge crossed fewer times than this is an outlier until proven otherwise."""
    outlier_s: Seconds | None = None
    """Seconds for which the broker keeps an outlier."""

    def __post_init__(self) -> None:
        if self.fallback not in FALLBACKS:
            hint = choose_from(self.fallback, FALLBACKS)
            raise ConfigError(f"scheme.fallback: {self.fallback!r} is no choice{hint}")
        object.__setattr__(self, "warm_start", rows_of(self.warm_start))
