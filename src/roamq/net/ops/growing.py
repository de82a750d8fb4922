"""What one running broker does when operators let a broker join, leave or be forgotten."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from roamq.core.events import BrokerId
from roamq.net.durable.inputs import InputKind
from roamq.net.ops.advertising import heard
from roamq.net.ops.draining import Draining
from roamq.net.shell import Shell

log = logging.getLogger("roamq.server")

LOOK_EVERY_S: Final = 0.1
CLIENTS_TOLD: Final = 100


class Growing:
    """Changes the network of one running broker, as operators ask."""

    def __init__(self, shell: Shell, draining: Draining, stop: Callable[[], None]) -> None:
        """`stop` stops the broker when it has left."""
        self._shell = shell
        self._draining = draining
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    def join(self, name: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Admits a broker; the operator may start it when this returns."""
        position: tuple[float, float] | None = None
        if "position" in query:
            try:
                latitude, longitude = map(float, query["position"].split(","))
            except ValueError:
                raise ValueError(f"position: {query['position']!r} is not LATITUDE,LONGITUDE") from None
            position = (latitude, longitude)
        at = tuple(one for one in query.get("at", "").split(",") if one)
        account = self._shell.live.machine.membership
        publishes = None
        if "publishes" in query:
            publishes = heard(query["publishes"], self._shell.live.machine.settings.overlay)
        calls = [BrokerId(one) for one in query.get("calls", "").split(",") if one]
        detours = getattr(self._shell.neighbours, "detours", None)
        beside = detours.edges_in_reach(calls) if detours is not None else ()
        member = account.joining(name, at, query.get("reference", ""), position, publishes, beside)
        self._shell.feed(InputKind.MEMBER, msgspec.msgpack.encode(member))
        log.info("join: %s joins the network at %s", name, ", ".join(at))
        beside = [mark.rpartition("@")[0] for mark in member.beside]
        return {"at": list(member.at), "beside": beside, "version": account.version}

    def forget(self, name: str) -> dict[str, Any]:
        """Declares a broker dead; reports whose sessions are lost, as far as this broker knows."""
        account = self._shell.live.machine.membership
        if name == self._shell.live.machine.me:
            raise ValueError(f"{name!r} is asked itself, and is there: `roamq leave` takes it out")
        member = account.departing(name, "forgotten")
        if name in getattr(self._shell.neighbours, "up", ()):
            raise ValueError(
                f"{name!r} is linked with this broker now, so it is not dead: `roamq leave` takes it out, with its "
                "sessions; stop it first if it cannot leave"
            )
        clients = account.clients_at(BrokerId(name))
        self._shell.feed(InputKind.MEMBER, msgspec.msgpack.encode(member))
        log.warning("forget: %s is declared dead; %d sessions are lost with it", name, len(clients))
        return {"sessions": len(clients), "clients": clients[:CLIENTS_TOLD], "version": account.version}

    def begin_leaving(self, drain: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Starts to hand everything over; then the broker leaves the network and stops. `look` tells how far it is."""
        machine = self._shell.live.machine
        self._check_not_needed()
        if self._task is None or self._task.done():
            drained = drain()
            self._task = self._shell.loop.create_task(self._leave())
            return drained
        return {"sessions": machine.status().sessions}

    def _check_not_needed(self) -> None:
        """Raises ValueError that names the brokers that need this one, if there are any."""
        machine = self._shell.live.machine
        machine.membership.departing(machine.me, "left")
        detours = getattr(self._shell.neighbours, "detours", None)
        if detours is not None and (apart := detours.apart_without_me()):
            raise ValueError(
                f"{apart[0]!r} and {apart[1]!r} reach each other through {machine.me!r} alone: add a link to "
                "network.links that leads around it, and let the two reload their file"
            )

    async def _leave(self) -> None:
        machine = self._shell.live.machine
        account = machine.membership
        while not account.has_left:
            found = self._draining.look()
            if account.unheard is None and not found["left"] and not found["unconfirmed"]:
                try:
                    self._check_not_needed()
                except (
                    ValueError
                ) as error:  # a broker has joined here meanwhile, or another broker leaves as well
                    log.warning("%s is drained, and stays: %s", machine.me, error)
                    return
                self._shell.feed(InputKind.LEAVE)
            await asyncio.sleep(LOOK_EVERY_S)
        while not self._is_heard():
            await asyncio.sleep(LOOK_EVERY_S)
        log.info("%s has left the network", machine.me)
        self._stop()

    def _is_heard(self) -> bool:
        """Whether a neighbour knows that this broker left: a neighbour that is down, or begins anew, can tell nobody.

        A neighbour that knows it ends the link, and refuses new ones."""
        neighbours = self._shell.neighbours
        up, refused = getattr(neighbours, "up", {}), getattr(neighbours, "refused", {})
        outboxes = self._shell.live.machine.outboxes
        frames = outboxes.frames
        return not any(frames.get(peer) or peer in outboxes.behind for peer in up) and any(
            peer in refused or not waiting for peer, waiting in frames.items()
        )

    def look(self) -> dict[str, Any]:
        """Returns what the health answer tells of this broker's leaving."""
        account = self._shell.live.machine.membership
        told: dict[str, Any] = {"network_version": account.version}
        if account.unheard is not None:
            told["unheard"] = sorted(account.unheard)
        if account.has_left:
            told["has_left"] = True
        return told

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()


def set_aside(folder: Path) -> Path:
    """Renames the data folder of a broker that has left: if the broker joins again, it begins empty."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.left-{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside
