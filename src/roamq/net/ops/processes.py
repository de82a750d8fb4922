"""One broker as several processes: all cores of a host behind one port.

Each process is a broker of the network. The first has the broker's name and its links to other hosts; the others are
its *mates*, called NAME.2, NAME.3, ... All share the listeners, so that the system spreads clients over them. Mates are
linked with each other by Unix sockets, in a folder that only this user may enter.
"""

import hashlib
import itertools
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from roamq.core.errors import ConfigError

PROCESSES_MAX: Final = 64
SECRET_BYTES: Final = 32


def names_of(broker: str, processes: int) -> tuple[str, ...]:
    """Returns the names of a broker's processes; the first has the broker's name."""
    return (broker, *(f"{broker}.{number}" for number in range(2, processes + 1)))


def mates(processes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Returns every process -> all processes of its broker, itself included. `processes`: broker -> how many it has."""
    found = {}
    for broker, count in processes.items():
        names = names_of(broker, count)
        found.update(dict.fromkeys(names, names))
    return found


def links_of(processes: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    """Returns the links between processes of one broker: each with each."""
    return tuple(
        pair
        for broker, count in processes.items()
        for pair in itertools.combinations(names_of(broker, count), 2)
    )


def run_folder(network: str, config: Path) -> Path:
    """Returns the folder of a network's sockets between processes: a short path, since sockets take no long one."""
    digest = hashlib.sha256(f"{network}\0{config.resolve()}".encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"roamq-{os.getuid()}-{digest}"


def enter(folder: Path) -> bytes:
    """Makes the folder, or checks that no other user can enter it; returns the secret that processes share there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(f"{folder}: is not a folder of this user alone; remove it")
    path = folder / "secret"
    draft = folder / f".secret-{os.getpid()}-{secrets.token_hex(4)}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_bytes()


def expanded(tables: Mapping[str, Any], copy: Any, names: Iterable[str]) -> dict[str, Any]:
    """Returns the tables of brokers and their mates; `copy(table, number)` makes the table of the process `number`."""
    found: dict[str, Any] = {}
    for name in names:
        table = tables[name]
        for number, process in enumerate(names_of(name, table.processes), 1):
            if process in found or (number > 1 and process in tables):
                raise ConfigError(f"brokers.{process}: is the name of a process of {name!r}; choose another")
            found[process] = table if number == 1 else copy(table, number)
    return found
