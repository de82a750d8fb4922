"""Areas of a scenario as polygons: a GeoJSON file whose features have a property `broker`, as live brokers read it."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from roamq.config import Source
from roamq.core.errors import ConfigError

FIELD = "network.polygons"


def read_polygons(data: dict[str, Any], folder: Path, source: Source) -> None:
    """Replaces the file name in `network.polygons` by the file's content: the scenario then depends on no file."""
    network = data.get("network")
    name = network.get("polygons") if isinstance(network, dict) else None
    if not isinstance(name, str):
        return
    try:
        data["network"]["polygons"] = json.loads((folder / name).read_text())
    except OSError as error:
        reason = f"{name} cannot be read: {error.strerror}"
        raise ConfigError(f"{source.place(FIELD)}: {FIELD}: {reason}") from error
    except ValueError as error:
        raise ConfigError(f"{source.place(FIELD)}: {FIELD}: {name} is not JSON: {error}") from error


def check_polygons(polygons: dict[str, Any] | None, brokers: Collection[str], source: Source) -> None:
    """Refuses an area that belongs to no broker of the scenario."""
    if polygons is None:
        return
    try:
        owners = {str(feature["properties"]["broker"]) for feature in polygons["features"]}
    except (TypeError, KeyError, IndexError) as error:
        reason = "this is no GeoJSON FeatureCollection whose features have a property 'broker'"
        raise ConfigError(f"{source.place(FIELD)}: {FIELD}: {reason}") from error
    if unknown := sorted(owners - set(brokers)):
        reason = f"there is an area of {unknown[0]!r}, and no broker has this name"
        raise ConfigError(f"{source.place(FIELD)}: {FIELD}: {reason}")
