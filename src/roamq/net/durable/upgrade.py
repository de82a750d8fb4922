"""Examines a broker before an upgrade: what it has stored, and which protocol versions its neighbours may speak."""

from typing import Any

from roamq import __version__
from roamq.core.errors import RoamqError
from roamq.net.durable import snapshot
from roamq.net.links.protocol import NEWEST, OLDEST
from roamq.net.ops.options import Durability, ServerOptions
from roamq.net.ops.preflight import is_in_use


def examine_broker(options: ServerOptions) -> dict[str, Any]:
    """Reports whether this release could start with the broker's folder, and what to know before; changes nothing."""
    storage = options.storage
    folder = None if storage.durability is Durability.MEMORY else storage.folder
    told: dict[str, Any] = {
        "readable": True,
        "release": None,
        "this_release": __version__,
        "folder": None if folder is None else str(folder),
        "snapshot": None,
        "snapshot_version": None,
        "sessions": 0,
        "inputs": 0,
        "link_versions": [OLDEST, NEWEST],
        "running": False,
        "reason": None,
        "advice": [],
    }
    if folder is None or not folder.exists():
        return told
    told["running"] = is_in_use(folder)
    try:
        found = snapshot.examine(folder, options.settings)
    except RoamqError as error:
        return told | {"readable": False, "reason": str(error)}
    told |= {
        "release": found.release,
        "snapshot": found.snapshot,
        "snapshot_version": found.snapshot_version,
        "sessions": found.sessions,
        "inputs": found.inputs,
    }
    if told["running"]:
        told["advice"] = ["the broker is running: what it stores until it stops is not looked at"]
    elif found.inputs:
        told["advice"] = [
            "the broker was not stopped but fell: this release replays the inputs by its own rules; to leave nothing "
            "to them, start the release that wrote them once more and stop it"
        ]
    return told
