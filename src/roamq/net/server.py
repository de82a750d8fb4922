"""One broker as a process: recover, listen, serve, snapshot, stop without loss. It decides nothing of the protocol."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from roamq import __version__
from roamq.core.errors import ConfigError, RoamqError
from roamq.net.clients.access import claims_asked
from roamq.net.clients.doors import bound, handles_of, name_failed_handshakes, tls_of
from roamq.net.clients.logins import Logins
from roamq.net.clients.tokens import Tokens
from roamq.net.clients.transports import Doorkeeper, make_connection
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import Journal, StorageError, lock_folder
from roamq.net.durable.snapshots import RECORDS_S_MAX, Snapshots
from roamq.net.links.sockets import LinkSockets
from roamq.net.ops.activity import Activity
from roamq.net.ops.alarms import Alarms
from roamq.net.ops.api import Api, Rights
from roamq.net.ops.console import Console
from roamq.net.ops.draining import Draining
from roamq.net.ops.files import within_files
from roamq.net.ops.growing import Growing, set_aside
from roamq.net.ops.inspection import Inspector
from roamq.net.ops.metrics import BrokerCollector, Observatory
from roamq.net.ops.options import Durability, Listener, ServerOptions
from roamq.net.ops.reloading import reloaded
from roamq.net.ops.settings import Settings
from roamq.net.ops.status import BrokerStatus
from roamq.net.ops.trace_reader import TraceReader
from roamq.net.shell import Shell

if TYPE_CHECKING:
    from roamq.net.ops.records import RecordWriter

log = logging.getLogger("roamq.server")

BACKLOG: Final = 1024
STATUS_EVERY_S: Final = 10.0
SWITCH_S: Final = 0.0005
"""Seconds that the event loop waits for a thread that writes records: a tenth of the interpreter's default."""
GC_THRESHOLDS: Final = (20_000, 1, 2500)
"""Thresholds of the garbage collector. Reference counts free most of what a broker allocates, so the collector need not
look after every 700 objects. Under load, some 15,000 objects are on their way, or in records that are not written yet:
at 10,000 the collector took 3% of the time. A look at a million objects would stop the broker for too long: at 20,000
it takes some five milliseconds."""


class Server:
    """One broker."""

    def __init__(self, options: ServerOptions, reload: Callable[[], ServerOptions] | None = None) -> None:
        self.options = options
        self._reload = reload
        self.recovered: snapshot.Recovery | None = None
        self._servers: list[asyncio.Server] = []
        self._stopping = asyncio.Event()
        self._status: asyncio.TimerHandle | None = None
        self._snapshots: asyncio.Task[None] | None = None
        self._started_at = 0.0

    async def start(self) -> None:
        """Start, and return when clients may connect. A start that fails leaves nothing running."""
        async with contextlib.AsyncExitStack() as undo:
            await self._start(undo)
            undo.pop_all()

    async def _start(self, undo: contextlib.AsyncExitStack) -> None:
        options = self.options
        loop = asyncio.get_running_loop()
        # Report a port in use before anything else begins: a link that is up would take frames already.
        doors = self._bind(undo)
        self.recorder = self._make_recorder()
        if self.recorder is not None:
            undo.callback(self.recorder.close, RECORDS_S_MAX)
        live, journal = self._recover(undo)
        waiting_max = options.bounds.logins_waiting_max
        self.logins = Logins(loop, options.users, options.listeners, waiting_max, _tokens(options))
        self.shell = shell = Shell(
            live,
            loop,
            self.logins,
            journal=journal,
            durability=options.storage.durability,
            on_records=self.recorder.add if self.recorder is not None else None,
        )
        self.activity = shell.watcher = Activity(live.machine, self._interpreter_s)
        self.draining = Draining(live.machine)
        self.growing = Growing(shell, self.draining, self._stopping.set)
        undo.callback(self.growing.close)
        undo.callback(self.logins.close)
        undo.callback(shell.stop)
        if journal is not None:
            shell.feed(InputKind.RECOVERED)
        self.door = Doorkeeper(
            shell,
            within_files(options.bounds),
            options.settings.quotas.publish_rate_max,
            options.settings.limits.maximum_packet_size,
        )
        self.links = LinkSockets(shell, live.machine.outboxes, options.links)
        shell.neighbours = self.links
        shell.start()
        undo.push_async_callback(self.links.stop)
        await self.links.start()
        if any(listener.client_ca is not None for listener in options.listeners):
            name_failed_handshakes(loop)
        for listener, door in doors:
            for handle in handles_of(door):
                undo.callback(handle.close)
                server = await self._listen(listener, handle)
                undo.callback(server.close)
                self._servers.append(server)
        self.observatory = self._make_observatory()
        if options.metrics_port is not None:
            try:
                await self.observatory.start(options.metrics_host, options.metrics_port)
            except OSError as error:
                field = f"brokers.{options.me}.metrics_port"
                raise ConfigError(
                    f"{field}: port {options.metrics_port}: {error.strerror or error}"
                ) from error
        self.snapshots = Snapshots(shell, options.storage, self.recorder)
        self._snapshots = loop.create_task(self.snapshots.take_when_due())
        self._started_at = time.monotonic()
        self._publish_status()
        log.info("broker %s serves %s", options.me, ", ".join(listener.url for listener in options.listeners))

    def _bind(self, undo: contextlib.AsyncExitStack) -> list[tuple[Listener, socket.socket]]:
        """A socket for every address that clients come to; none of them lets a client in yet."""
        doors = []
        for listener in self.options.listeners:
            named = f"listener {listener.url}"
            for door in bound(named, listener.host, listener.port, shared=self.options.shares_ports):
                undo.callback(door.close)
                doors.append((listener, door))
        return doors

    def _make_observatory(self) -> Observatory:
        """The server of the metrics port: metrics, health, the API with its actions, and the console."""
        options, shell = self.options, self.shell
        alarms = Alarms(shell, self.activity, self.condition)
        self.activity.every_second.append(alarms.tick)
        inspector = Inspector(shell, self.activity, self.health, alarms)
        rights = Rights(options.console_token, options.token)
        api = Api(
            inspector,
            rights,
            {
                "kick": self.kick,
                "reload": lambda _: self.reload(),
                "drain": lambda _: self.drain(),
                "leave": lambda _: self.growing.begin_leaving(self.drain),
                "forget": self.growing.forget,
            },
            {"join": self.growing.join},
            TraceReader(None if options.recording is None else options.recording.folder).read,
        )
        return Observatory(
            BrokerCollector(shell, self.recorder, self.activity, alarms),
            self.health,
            {"/reload": lambda _: self.reload(), "/drain": lambda _: self.drain()},
            options.token,
            api,
            Console(inspector, rights) if options.console_token is not None else None,
        )

    async def run(self, *, with_parent: bool = False) -> None:
        """Serve until SIGTERM or SIGINT; if `with_parent`, also until standard input ends because its writer is
        gone."""
        loop = asyncio.get_running_loop()
        if with_parent:
            loop.add_reader(sys.stdin.fileno(), self._stopping.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_on_signal)
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        await self.start()
        gc.collect()
        gc.freeze()
        await self._stopping.wait()
        if with_parent:
            loop.remove_reader(sys.stdin.fileno())
        await self.stop()

    async def stop(self) -> None:
        """Tell the clients, let safe outputs out, and write a snapshot."""
        log.info("broker %s stops", self.options.me)
        self.door.is_open = False
        for server in self._servers:
            server.close()
        self.observatory.close()
        self.growing.close()
        if self._status is not None:
            self._status.cancel()
        if self._snapshots is not None:
            self._snapshots.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._snapshots
        shell = self.shell
        shell.feed(InputKind.SHUTDOWN)
        shell.flush()
        deadline = shell.now() + self.options.bounds.linger_s
        while (shell.clients or shell.is_holding) and shell.now() < deadline and shell.stalled is None:
            await asyncio.sleep(0.01)
        for client in list(shell.clients.values()):
            client.abort()
        await asyncio.sleep(0)
        self.links.take_no_more()
        deadline = shell.now() + self.options.bounds.linger_s
        while self.links.has_unconfirmed and shell.now() < deadline and shell.stalled is None:
            await asyncio.sleep(0.01)
        self.logins.close()
        await self.links.stop()
        shell.stop()
        if self.recorder is not None:
            self.recorder.close(RECORDS_S_MAX)
        journal = shell.journal
        if journal is not None:
            if shell.stalled is None:
                try:
                    self.snapshots.take_last()
                except (StorageError, OSError) as error:  # the journal has all that the snapshot would
                    self.snapshots.note_failure(str(error))
            with contextlib.suppress(StorageError, OSError):  # a stalled broker has said why
                journal.close()
            os.close(self._lock)
            if shell.live.machine.membership.has_left:
                log.info("the data folder is set aside: %s", set_aside(journal.folder))

    # --- parts -------------------------------------------------------------------------------------------------

    def _make_recorder(self) -> "RecordWriter | None":
        recording = self.options.recording
        if recording is None:
            return None
        from roamq.net.ops.records import RecordWriter  # brings pyarrow, which takes a while

        settings = self.options.settings
        try:
            return RecordWriter(
                recording.folder,
                recording.run_id,
                settings.me,
                _place(settings),
                flush_s=recording.flush_s,
                rows_max=recording.rows_max,
            )
        except OSError as error:
            raise StorageError(f"{recording.folder}: records cannot be written: {error.strerror}") from error

    def _interpreter_s(self) -> float:
        """Seconds of processor time of the two threads that want the interpreter: while one has it, the other waits."""
        records_s = self.recorder.interpreter_s if self.recorder is not None else 0.0
        return time.thread_time() + records_s

    def _recover(self, undo: contextlib.AsyncExitStack) -> tuple[LiveBroker, Journal | None]:
        storage = self.options.storage
        settings = self.options.settings
        now = time.time()
        if storage.durability is Durability.MEMORY:
            return LiveBroker(settings, now), None
        assert storage.folder is not None
        self._lock = lock_folder(storage.folder)
        undo.callback(os.close, self._lock)
        on_records = self.recorder.add if self.recorder is not None else None
        found = snapshot.recover(storage.folder, settings, now, on_records)
        if found.torn_bytes:
            log.warning("the last %d bytes of the journal were torn and cut off", found.torn_bytes)
        log.info("recovered %d inputs in %.3f s", found.inputs, found.seconds)
        self.recovered = found
        journal = Journal(storage.folder, found.segment)
        undo.callback(journal.close)
        # The very first entry tells a replay from which settings the live broker was made, and when: `now` as above.
        entry = (int(InputKind.SETTINGS), max(now, found.live.time), msgspec.msgpack.encode(settings))
        journal.pending.append(entry)
        found.live.apply(entry)
        return found.live, journal

    async def _listen(self, listener: Listener, door: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            tls = tls_of(listener)
            # A stranger may hold a socket in silence no longer than a client that is to send CONNECT.
            patience_s = None if tls is None else self.options.bounds.connect_timeout_s
            make = make_connection(self.door, listener)
            return await loop.create_server(
                make, sock=door, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience_s
            )
        except OSError as error:
            raise ConfigError(f"listener {listener.url}: {error.strerror or error}") from error

    # --- operators ---------------------------------------------------------------------------------------------

    def status(self) -> BrokerStatus:
        """Figures of the broker at this moment."""
        return self.shell.live.status()

    def serves(self, client: str) -> bool:
        """Is the client connected here, or waiting to be let in?"""
        return self.shell.live.machine.serves(client)

    def health(self) -> dict[str, Any]:
        return {**self.condition(), "sessions": self.status().sessions}

    def condition(self) -> dict[str, Any]:
        """The part of `health` that looks at no client."""
        shell, machine = self.shell, self.shell.live.machine
        is_draining = machine.admission.draining
        down = sorted(machine.outboxes.frames.keys() - self.links.up.keys())
        status = "ok"
        if shell.stalled is not None:
            status = "stalled"
        elif is_draining:
            status = "draining"
        elif self.snapshots.failure is not None:
            status = "degraded"
        return {
            "status": status,
            "broker": self.options.me,
            "pid": os.getpid(),
            "processes": 1 + len(self.options.settings.mates),
            "scheme": machine.settings.scheme,
            "durability": self.options.storage.durability.value,
            "connections": len(shell.clients),
            "links_down": down,
            **({"links_through": through} if (through := self.links.through) else {}),
            **({"links_detoured": detoured} if (detoured := self.links.detoured) else {}),
            **({"links_carried": carried} if (carried := self.links.carried) else {}),
            **self.growing.look(),
            **({"links_refused": dict(self.links.refused)} if self.links.refused else {}),
            "recovered_inputs": self.recovered.inputs if self.recovered is not None else 0,
            "recovery_s": round(self.recovered.seconds, 3) if self.recovered is not None else 0.0,
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            **({"handed_to": dict(self.activity.handed_to), **self.draining.look()} if is_draining else {}),
            **({"reason": shell.stalled} if shell.stalled is not None else {}),
            **({"snapshot": self.snapshots.failure} if self.snapshots.failure is not None else {}),
            **({"records": self.recorder.failed} if self.recorder and self.recorder.failed else {}),
        }

    def reload(self) -> dict[str, Any]:
        """Read users, access rules, schemes and links again; a file that cannot be read changes nothing."""
        if self._reload is None:
            raise ValueError("this broker was started without a file")
        try:
            options = self._reload()
            machine = self.shell.live.machine
            changed = reloaded(self.options, options, machine.settings, machine.membership.positions)
        except RoamqError as error:
            log.error("nothing was reloaded: %s", error)
            raise ValueError(str(error)) from error
        self.options = msgspec.structs.replace(
            self.options,
            listeners=changed.listeners,
            users=options.users,
            tokens=options.tokens,
            links=options.links,
        )
        if changed.wires is not None:
            self.links.rewire(changed.wires)
        self.logins.set_users(options.users, changed.listeners, _tokens(options))
        self.shell.verdicts.users_changed()
        if changed.settings is not None:
            self.shell.feed(InputKind.SETTINGS, msgspec.msgpack.encode(changed.settings))
        rules = msgspec.msgpack.encode(options.settings.access)
        self.shell.feed(InputKind.RULES, rules, changed.gone, changed.closed, changed.withdrawn)
        if _doors(options) != _doors(self.options):
            log.warning(
                "the listeners of the file are not those of this broker: it takes them when it starts again"
            )
        told = changed.told(options)
        log.info("reloaded: %s", told)
        return told

    def drain(self) -> dict[str, Any]:
        """Send the clients to other brokers, and hand over the sessions of absent clients. `health` shows how many are
        left."""
        if not set(self.shell.live.machine.others.names) - set(self.options.settings.mates):
            raise ValueError("there is no other broker to take the sessions")
        sessions = self.status().sessions
        self.activity.drain_began(sessions)
        self.draining.began()
        self.shell.feed(InputKind.DRAIN)
        return {"sessions": sessions}

    def kick(self, client: str) -> dict[str, Any]:
        """End the connection of a client with 0x98 (Administrative action); its session stays."""
        if not self.serves(client):
            raise ValueError(f"{client!r} is not connected at {self.options.me}")
        log.info("kick: an operator ends the connection of client %r", client)
        self.shell.feed(InputKind.KICK, client)
        return {"client": client}

    def _publish_status(self) -> None:
        shell = self.shell
        counts = shell.counts
        if shell.stalled is None:
            now = self.status()
            shell.feed(
                InputKind.STATUS,
                {
                    "version": f"roamq {__version__}",
                    "uptime": f"{time.monotonic() - self._started_at:.0f} seconds",
                    "clients/connected": str(len(shell.clients)),
                    "clients/total": str(now.sessions),
                    "messages/received": str(counts["published"]),
                    "messages/sent": str(counts["delivered"]),
                    "publish/messages/dropped": str(counts["dropped"]),
                    "retained messages/count": str(now.retained_messages),
                    "store/messages/count": str(now.stored_events),
                    "store/messages/bytes": str(now.stored_bytes),
                },
            )
        self._status = shell.loop.call_later(STATUS_EVERY_S, self._publish_status)

    def _reload_on_signal(self) -> None:
        with contextlib.suppress(ValueError):
            self.reload()


def _doors(options: ServerOptions) -> list[Listener]:
    """The listeners, without the fields that a reload changes."""
    return [msgspec.structs.replace(listener, anonymous=False) for listener in options.listeners]


def _tokens(options: ServerOptions) -> Tokens | None:
    if options.tokens is None:
        return None
    return Tokens(options.tokens, claims_asked(options.settings.access))


def _place(settings: Settings) -> tuple[int, int]:
    """This broker's number among the brokers of the first configuration, and their count; a broker that joined later
    shares the number of one of them."""
    count = len(settings.brokers)
    if settings.me in settings.brokers:
        return settings.brokers.index(settings.me), count
    return crc32(settings.me.encode()) % count, count


def serve(
    options: ServerOptions, reload: Callable[[], ServerOptions] | None = None, *, with_parent: bool = False
) -> None:
    """Run one broker until it is told to stop."""

    async def run() -> None:
        await Server(options, reload).run(with_parent=with_parent)

    assert threading.current_thread() is threading.main_thread()
    try:
        import uvloop
    except ImportError:
        asyncio.run(run())
    else:
        uvloop.run(run())
