"""The processes of one broker, kept running: `roamq serve --processes`."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import click

from roamq.core.errors import RoamqError

RESTART_S_MIN = 0.2
RESTART_S_MAX = 10.0
STOP_S_MAX = 20.0
MISTAKE = 2
"""The exit code of a process whose configuration is wrong: starting it again does not help."""


class Process:
    """One process, started again when it falls: at once, and later each time if it keeps falling."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self._arguments = arguments
        self._wait_s = RESTART_S_MIN
        self.restarts = -1
        self.start()

    def start(self) -> None:
        # When this process ends, the other end of the pipe is closed, and the child stops.
        self.child = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, start_new_session=True)
        self.restarts += 1
        self._started_at = time.monotonic()
        self._due_at: float | None = None

    def look(self) -> None:
        """Starts the process again if it has fallen and its time has come."""
        code = self.child.poll()
        if code is None:
            return
        if code == MISTAKE and self.restarts == 0:
            raise RoamqError(f"process {self.name} cannot start")
        now = time.monotonic()
        if self._due_at is None:
            lived_s = now - self._started_at
            self._wait_s = RESTART_S_MIN if lived_s > RESTART_S_MAX else min(2 * self._wait_s, RESTART_S_MAX)
            self._due_at = now + (0.0 if lived_s > RESTART_S_MAX else self._wait_s)
            click.echo(
                f"roamq: process {self.name} ended with exit code {code}; it is started again", err=True
            )
        if now >= self._due_at:
            self.start()

    def send(self, number: int) -> None:
        if self.child.poll() is None:
            self.child.send_signal(number)


def supervise(config: Path, names: tuple[str, ...], more: list[str], *, with_parent: bool = False) -> None:
    """Runs the processes until SIGTERM or SIGINT; SIGHUP reaches all of them.

    `with_parent`: or until standard input ends, because its writer is gone.
    """
    stop = threading.Event()
    if with_parent:
        threading.Thread(target=_set_at_end, args=(sys.stdin.fileno(), stop), daemon=True).start()
    command = [sys.executable, "-m", "roamq.cli.main", "serve", str(config)]
    processes = [Process(name, [*command, "--process", name, *more]) for name in names]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def reload(*_: object) -> None:
        for process in processes:
            process.send(signal.SIGHUP)

    signal.signal(signal.SIGHUP, reload)
    try:
        while not stop.wait(0.1):
            for process in processes:
                process.look()
    finally:
        for process in processes:
            process.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S_MAX
        for process in processes:
            try:
                process.child.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.child.kill()
                process.child.wait()
            assert process.child.stdin is not None
            process.child.stdin.close()


def _set_at_end(file: int, event: threading.Event) -> None:
    """Sets the event when no process writes to this file any more."""
    while os.read(file, 1024):
        pass
    event.set()
