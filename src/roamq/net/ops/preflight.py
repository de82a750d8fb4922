"""Checks what a configuration alone does not tell: whether a broker can start with it on this machine.

`roamq serve --check` prints the problems.
"""

import fcntl
import os
from pathlib import Path

from roamq.config import suggestion
from roamq.core.errors import RoamqError
from roamq.net.durable import snapshot
from roamq.net.ops.configuration import NetworkConfig
from roamq.net.ops.options import Durability, ServerOptions
from roamq.net.ops.settings import ANONYMOUS, ANYBODY


def problems(network: NetworkConfig, broker: str) -> list[str]:
    """Returns reasons why the broker would not start, or would not do what the file seems to say; one line each."""
    options = network.server_options(broker)
    return [*unknown_users(network), *_key_files(options), *_data_folder(options), *_records_folder(options)]


def unknown_users(network: NetworkConfig) -> list[str]:
    """Returns problems: rules for users that nobody can log in as."""
    users = network.access.users
    listeners = (listener for table in network.brokers.values() for listener in table.listeners)
    if network.access.jwt is not None or any(listener.certificate_user for listener in listeners):
        return []  # tokens or certificates may bring users that the file does not name
    found = []
    for number, rule in enumerate(network.rules.rules):
        if rule.user not in (ANYBODY, ANONYMOUS) and rule.user not in users:
            field = f"access.rules[{number}].user"
            hint = suggestion(rule.user, users) or "; [access.users] is empty"
            found.append(
                f"{network.source.place(field)}: {field}: {rule.user!r} is not in [access.users]{hint}"
            )
    return found


def _key_files(options: ServerOptions) -> list[str]:
    files = (options.links.certificate, options.links.key, options.links.authority)
    missing = [path for path in files if path is not None and not path.is_file()]
    return [f"network.keys: {path} is not there; `roamq keys` makes it" for path in missing]


def _data_folder(options: ServerOptions) -> list[str]:
    storage = options.storage
    if storage.durability is Durability.MEMORY or storage.folder is None:
        return []
    folder = storage.folder
    if not folder.exists():
        return _cannot_make("storage.folder", folder)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [f"storage.folder: {folder} cannot be written by this user"]
    if is_in_use(folder):
        return []  # the broker is running, so its stored state fits its configuration
    try:
        snapshot.examine(folder, options.settings)
    except RoamqError as error:
        return [f"storage.folder: {error}"]
    return []


def _records_folder(options: ServerOptions) -> list[str]:
    return [] if options.recording is None else _cannot_make("records.folder", options.recording.folder)


def _cannot_make(field: str, folder: Path) -> list[str]:
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return []
    return [f"{field}: {folder} cannot be made: {there} is not a folder that this user may write to"]


def is_in_use(folder: Path) -> bool:
    lock = folder / "lock"
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
