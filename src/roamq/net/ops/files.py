"""How many files the system lets a broker open: a connection is one, and the journal, links and threads need some.

A process that has none left cannot take connections, and nobody is told: they wait. So a broker asks for as many as its
bound on connections needs, and if it does not get them the bound is what is left.
"""

import logging
import resource
from typing import Final

from msgspec.structs import replace

from roamq.net.ops.options import Bounds

log = logging.getLogger("roamq.server")

OWN_FILES: Final = 128
"""What a broker opens beside connections of clients: segments, snapshots, links, sockets that listen, threads."""


def within_files(bounds: Bounds) -> Bounds:
    """The bounds, with no more connections than the system has files for. Raises the soft limit of the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.connections_max + OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return bounds
    room = max(1, soft - OWN_FILES)
    # Who has asked for so many is warned; the default is more than many systems allow.
    log.log(
        logging.INFO if bounds.connections_max == Bounds().connections_max else logging.WARNING,
        "bounds.connections_max is %d, and there are files for %d: more connections are refused. Raise the limit of "
        "open files (ulimit -n, LimitNOFILE) to %d",
        bounds.connections_max,
        room,
        wanted,
    )
    return replace(bounds, connections_max=room)
