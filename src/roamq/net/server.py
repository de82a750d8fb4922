"""One broker as a process: recover, listen, serve, snapshot, and stop without loss. No protocol decisions."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from roamq import __version__
from roamq.core.context import Mode
from roamq.core.errors import ConfigError, RoamqError
from roamq.net import snapshot
from roamq.net.journal import Journal, StorageError, lock_folder
from roamq.net.logins import Logins
from roamq.net.node import Kind, Node
from roamq.net.observe import BrokerCollector, Observatory
from roamq.net.options import Durability, Listener, ServerOptions
from roamq.net.peers import Peers
from roamq.net.shell import Shell
from roamq.net.transports import Doorkeeper, make_connection

if TYPE_CHECKING:
    from roamq.net.recording import Recorder

log = logging.getLogger("roamq.server")

BACKLOG: Final = 1024
RECORDS_S_MAX: Final = 10.0
STATUS_EVERY_S: Final = 10.0
SWITCH_S: Final = 0.0005
"""How long the event loop waits for a thread that writes records: ten times less than the interpreter's default."""
GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Most of what a broker allocates is freed by count; the collector need not look after every 700 objects."""


class Server:
    """One broker."""

    def __init__(self, options: ServerOptions, reload: Callable[[], ServerOptions] | None = None) -> None:
        self.options = options
        self._reload = reload
        self.recovered: snapshot.Recovery | None = None
        self._servers: list[asyncio.Server] = []
        self._stopping = asyncio.Event()
        self._started_at = 0.0

    async def start(self) -> None:
        """Returns when clients may come."""
        options = self.options
        loop = asyncio.get_running_loop()
        self.recorder = self._make_recorder()
        node, journal = self._recover()
        self.shell = shell = Shell(
            node,
            loop,
            journal=journal,
            durability=options.storage.durability,
            on_records=self.recorder.add if self.recorder is not None else None,
        )
        if journal is not None:
            shell.feed(Kind.RECOVERED)
        self.logins = Logins(shell, options.users, options.listeners, options.bounds.logins_waiting_max)
        self.door = Doorkeeper(shell, options.bounds, options.settings.quotas.publish_rate_max)
        self.peers = Peers(shell, options.links)
        shell.neighbours = self.peers
        shell.start()
        await self.peers.start()
        for listener in options.listeners:
            self._servers.append(await self._listen(listener))
        self.observatory = Observatory(
            BrokerCollector(shell, self.recorder),
            self.health,
            {"/reload": lambda _: self.reload(), "/drain": lambda _: self.drain()},
        )
        if options.metrics_port is not None:
            await self.observatory.start(options.metrics_host, options.metrics_port)
        self._snapshots = loop.create_task(self._snapshot_when_due())
        self._started_at = time.monotonic()
        self._publish_status()
        log.info("broker %s serves %s", options.me, ", ".join(listener.url for listener in options.listeners))

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload_on_signal)
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        await self.start()
        gc.collect()
        gc.freeze()
        await self._stopping.wait()
        await self.stop()

    async def stop(self) -> None:
        """Tell the clients, let out what is safe, write a snapshot."""
        log.info("broker %s stops", self.options.me)
        self.door.is_open = False
        for server in self._servers:
            server.close()
        self.observatory.close()
        self._status.cancel()
        self._snapshots.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._snapshots
        shell = self.shell
        shell.feed(Kind.SHUTDOWN)
        shell.flush()
        deadline = shell.now() + self.options.bounds.linger_s
        while (shell.clients or shell.is_holding) and shell.now() < deadline and shell.stalled is None:
            await asyncio.sleep(0.01)
        for client in list(shell.clients.values()):
            client.abort()
        await asyncio.sleep(0)
        self.logins.close()
        await self.peers.stop()
        shell.stop()
        if self.recorder is not None:
            self.recorder.close(RECORDS_S_MAX)
        if shell.journal is not None and shell.stalled is None:
            journal = shell.journal
            shell.at_rest(lambda segment: snapshot.write(shell.node, journal.folder, segment))
            journal.discard_before(journal.segment)
            snapshot.discard_before(journal.folder, journal.segment)
            journal.close()
            os.close(self._lock)

    # --- parts -------------------------------------------------------------------------------------------------

    def _make_recorder(self) -> "Recorder | None":
        recording = self.options.recording
        if recording is None:
            return None
        from roamq.net.recording import Recorder  # brings pyarrow, which takes a while

        settings = self.options.settings
        return Recorder(
            recording.folder,
            recording.run_id,
            settings.me,
            (settings.brokers.index(settings.me), len(settings.brokers)),
            flush_s=recording.flush_s,
            rows_max=recording.rows_max,
        )

    def _recover(self) -> tuple[Node, Journal | None]:
        storage = self.options.storage
        settings = self.options.settings
        now = time.time()
        if storage.durability is Durability.MEMORY:
            return Node(settings, now), None
        assert storage.folder is not None
        self._lock = lock_folder(storage.folder)
        on_records = self.recorder.add if self.recorder is not None else None
        found = snapshot.recover(storage.folder, settings, now, on_records)
        if found.torn_bytes:
            log.warning("the last %d bytes of the journal were torn and cut off", found.torn_bytes)
        log.info("recovered %d inputs in %.3f s", found.inputs, found.seconds)
        self.recovered = found
        journal = Journal(storage.folder, found.segment)
        # The first entry of all tells a replay what the node was made of, and when: the same `now` as above.
        entry = (int(Kind.SETTINGS), max(now, found.node.time), msgspec.msgpack.encode(settings))
        journal.pending.append(entry)
        found.node.apply(entry)
        return found.node, journal

    async def _listen(self, listener: Listener) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(
                make_connection(self.door, listener),
                listener.host,
                listener.port,
                ssl=_tls(listener),
                backlog=BACKLOG,
            )
        except OSError as error:
            raise ConfigError(f"listener {listener.url}: {error.strerror or error}") from error

    # --- snapshots ---------------------------------------------------------------------------------------------

    async def _snapshot_when_due(self) -> None:
        journal = self.shell.journal
        if journal is None:
            return
        # A large state is worth a longer journal: otherwise a broker would do little else than write snapshots.
        due_bytes = max(self.options.storage.snapshot_bytes, snapshot.size(journal.folder))
        while True:
            await asyncio.sleep(1.0)
            if journal.written_bytes >= due_bytes and self.shell.stalled is None:
                await self.snapshot()
                due_bytes = max(self.options.storage.snapshot_bytes, snapshot.size(journal.folder))

    async def snapshot(self) -> None:
        """Let a child write the state, then drop the journal that it stands for."""
        shell, journal = self.shell, self.shell.journal
        assert journal is not None
        # Nothing may be under way: what is staged belongs to inputs before the snapshot.
        while shell.is_holding:
            await asyncio.sleep(0.001)
        try:
            child, pipe = shell.at_rest(lambda segment: snapshot.fork(shell.node, journal.folder, segment))
        except StorageError as error:
            log.error("no snapshot: %s", error)
            return
        segment, records = journal.segment, shell.node.records
        recorded = self.recorder.flush_soon() if self.recorder is not None else None
        await _closed(pipe)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        if status:
            log.error("the snapshot failed; the journal is kept")
            return
        if recorded is not None and not await asyncio.to_thread(recorded.wait, RECORDS_S_MAX):
            log.warning("records are behind; the journal is kept")
            return
        if self.recorder is not None and self.recorder.written < records:
            return  # they could not be written: the journal can make them again
        journal.discard_before(segment)
        snapshot.discard_before(journal.folder, segment)
        shell.counts["snapshots"] += 1

    # --- operators ---------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        shell = self.shell
        down = sorted(set(shell.machine.outbox) - self.peers.links.keys())
        status = "ok"
        if shell.stalled is not None:
            status = "stalled"
        elif shell.machine.draining:
            status = "draining"
        return {
            "status": status,
            "broker": self.options.me,
            "scheme": self.options.settings.scheme,
            "durability": self.options.storage.durability.value,
            "connections": len(shell.clients),
            "sessions": self._sessions(),
            "links_down": down,
            "recovered_inputs": self.recovered.inputs if self.recovered is not None else 0,
            "recovery_s": round(self.recovered.seconds, 3) if self.recovered is not None else 0.0,
            "uptime_s": round(time.monotonic() - self._started_at, 1),
            **({"reason": shell.stalled} if shell.stalled is not None else {}),
            **({"records": self.recorder.failed} if self.recorder and self.recorder.failed else {}),
        }

    def reload(self) -> dict[str, Any]:
        """Read users and access rules anew; what cannot be read changes nothing."""
        if self._reload is None:
            raise ValueError("this broker was started without a file")
        try:
            options = self._reload()
        except RoamqError as error:
            log.error("rules were not reloaded: %s", error)
            raise ValueError(str(error)) from error
        self.logins.set_users(options.users)
        self.shell.feed(Kind.RULES, msgspec.msgpack.encode(options.settings.access))
        log.info("access rules reloaded")
        return {"users": len(options.users), "rules": len(options.settings.access.rules)}

    def drain(self) -> dict[str, Any]:
        """Send the clients to other brokers, and hand the sessions of absent ones over. `health` shows what is left."""
        if len(self.options.settings.brokers) == 1:
            raise ValueError("there is no other broker to take the sessions")
        sessions = self._sessions()
        self.shell.feed(Kind.DRAIN)
        return {"sessions": sessions}

    def _sessions(self) -> int:
        """Those that live here; copies that wait for a client do not count."""
        contexts = self.shell.machine.scheme.contexts.values()
        return sum(context.mode is not Mode.PASSIVE for context in contexts)

    def _publish_status(self) -> None:
        shell = self.shell
        counts = shell.counts
        if shell.stalled is None:
            shell.feed(
                Kind.STATUS,
                {
                    "version": f"roamq {__version__}",
                    "uptime": f"{time.monotonic() - self._started_at:.0f} seconds",
                    "clients/connected": str(len(shell.clients)),
                    "clients/total": str(self._sessions()),
                    "messages/received": str(counts["published"]),
                    "messages/sent": str(counts["delivered"]),
                    "publish/messages/dropped": str(counts["dropped"]),
                    "retained messages/count": str(len(shell.machine.retained)),
                    "store/messages/count": str(len(shell.machine.scheme.buffer)),
                    "store/messages/bytes": str(shell.machine.scheme.buffer.bytes),
                },
            )
        self._status = shell.loop.call_later(STATUS_EVERY_S, self._publish_status)

    def _reload_on_signal(self) -> None:
        with contextlib.suppress(ValueError):
            self.reload()


def _tls(listener: Listener) -> ssl.SSLContext | None:
    if listener.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(listener.certificate, listener.key)
    if listener.client_ca is not None:
        context.load_verify_locations(listener.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _closed(pipe: int) -> None:
    """The other end of the pipe is closed."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def look() -> None:
        loop.remove_reader(pipe)
        ended.set_result(None)

    loop.add_reader(pipe, look)
    try:
        await ended
    finally:
        os.close(pipe)


def serve(options: ServerOptions, reload: Callable[[], ServerOptions] | None = None) -> None:
    """Run one broker until it is told to stop."""

    async def run() -> None:
        await Server(options, reload).run()

    assert threading.current_thread() is threading.main_thread()
    try:
        import uvloop
    except ImportError:
        asyncio.run(run())
    else:
        uvloop.run(run())
