"""Bounds a broker's connections by the files that the system lets it open: each connection needs one, and the journal,
links and threads need some.

A process without free files cannot accept connections: clients wait, and get no answer. So a broker asks the system for
as many files as its bound on connections needs. If it does not get them, it lowers the bound.
"""

import logging
import resource
from typing import Final

from msgspec.structs import replace

from roamq.net.ops.options import Bounds

log = logging.getLogger("roamq.server")

OWN_FILES: Final = 128
"""Files that a broker opens beside those of clients: segments, snapshots, links, listening sockets, threads."""


def within_files(bounds: Bounds) -> Bounds:
    """Lowers the bound on connections to the files that the system has. Raises the soft limit of the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.connections_max + OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return bounds
    room = max(1, soft - OWN_FILES)
    # An operator who has set the bound is warned; the default is more than many systems allow.
    log.log(
        logging.INFO if bounds.connections_max == Bounds().connections_max else logging.WARNING,
        "bounds.connections_max is %d, and there are files for %d: more connections are refused. Raise the limit of "
        "open files (ulimit -n, LimitNOFILE) to %d",
        bounds.connections_max,
        room,
        wanted,
    )
    return replace(bounds, connections_max=room)
