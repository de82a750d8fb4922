"""The parameters of cleaning: one place that says what silence, flapping and too little data mean.

Each field is the parameter of a named rule in `silver`; a format has its own defaults, and a command may change
any of them (`--set gap_s=900`). Importable without Spark.
"""

import codecs
import dataclasses
import math
import re
import typing
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError

_OFFSET: Final = re.compile(r"[+-]\d\d:\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How observations become sojourns."""

    at_one_instant: Literal["all", "last", "sticky"] = "last"
    """Several sites at one instant: `all` keeps the file's order, `last` the last row, `sticky` the site the client
    was already at if it is still listed, else the first (tables of clients age slowly)."""
    gap_s: float = 600.0
    """Silence longer than this ends a stay."""
    silence: Literal["disconnected", "unknown"] = "disconnected"
    """What such a silence is: a disconnection, or missing data that counts as neither."""
    hole_s: float = 0.0
    """If nobody at all was observed for longer than this, nobody was looked at: a silence of which no more than `gap_s`
    is left without such holes is missing data. 0: there are no holes."""
    credit_s: float = 0.0
    """How long after its last observation a client is still taken to be there when silence follows: where clients are
    sampled, until the next sample is due. With 0, a period that was observed once has no length and is left out."""
    ping_pong_s: float = 0.0
    """A stay shorter than this between two stays at one other site belongs to that site; 0 keeps all."""
    max_speed_mps: float = 0.0
    """A position that needs more than this speed both to reach and to leave is an outlier; 0 keeps all."""
    min_observations: int = 1
    """Clients seen less often are left out."""
    sites: str = "given"
    """Positions to sites: `grid:METRES`, `h3:RESOLUTION` or `nearest:FILE` (site,longitude,latitude) for degrees,
    `plane:METRES` for metres."""
    time_zone: str = "UTC"
    """Where days begin and end, and what times without a zone mean."""
    encoding: str = "utf-8"
    """How the bytes of the files are letters; lines whose bytes are not valid UTF-8 are quarantined."""
    bin_s: int = 600
    """Width of an arrival bin ([TIME] section 4.1.2 uses ten minutes)."""
    half_life_days: float = 7.0
    """After this many days a move counts half in `recent_probability`."""
    test_share: float = 0.3
    """Share of the days, the last ones, that predictions are tested on."""
    fit_samples: int = 5000
    """At most so many durations of a group are fitted, chosen by hash."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"rule {field.name}: must be a finite number, got {value}")
        for name in ("gap_s", "bin_s", "half_life_days", "fit_samples"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"rule {name}: must be above 0, got {getattr(self, name)}")
        for name in ("hole_s", "credit_s", "ping_pong_s", "max_speed_mps", "min_observations"):
            if getattr(self, name) < 0:
                raise ConfigError(f"rule {name}: must not be negative, got {getattr(self, name)}")
        if not 0 < self.test_share < 1:
            raise ConfigError(f"rule test_share: must lie between 0 and 1, got {self.test_share}")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(
                f"rule encoding: {self.encoding!r} is unknown; latin-1, cp1252 and utf-16 are examples"
            ) from None
        if not _OFFSET.fullmatch(self.time_zone):
            try:
                zoneinfo.ZoneInfo(self.time_zone)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                raise ConfigError(
                    f"rule time_zone: {self.time_zone!r} is unknown; Europe/Berlin and +01:00 are examples"
                ) from None
        hints = typing.get_type_hints(Rules)
        for name in ("at_one_instant", "silence"):
            known = typing.get_args(hints[name])
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise ConfigError(f"rule {name}: {given!r} is no choice{choose_from(given, known)}")

    def changed(self, settings: Mapping[str, str]) -> "Rules":
        """These rules with some parameters set from text, as a command line gives them."""
        hints = typing.get_type_hints(Rules)
        values: dict[str, Any] = {}
        for name, text in settings.items():
            if name not in hints:
                raise ConfigError(f"unknown rule {name!r}{choose_from(name, hints)}")
            kind = hints[name] if hints[name] in (int, float) else str
            try:
                values[name] = kind(text)
            except ValueError:
                raise ConfigError(f"rule {name}: {text!r} is not a number") from None
        return dataclasses.replace(self, **values)
