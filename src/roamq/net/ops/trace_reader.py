"""`GET /api/trace/WHAT`: a process of its own reads what the records tell.

Records of days may be large. A request for all of them takes neither the broker's memory nor its time.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from roamq.net.ops.api import HttpResponse, answered

READ_S_MAX: Final = 30.0


class TraceReader:
    """Reads one folder of records, for one request at a time."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: the folder of `[records]`; None if there is none."""
        self._folder = folder
        self._reading = asyncio.Lock()

    async def read(self, what: str, last: int) -> HttpResponse:
        if self._folder is None:
            return answered({"error": "there is no [records] in the configuration"}, "400 Bad Request")
        if self._reading.locked():
            error = "records are being read for somebody else; ask again"
            return answered({"error": error}, "503 Service Unavailable")
        async with self._reading:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "roamq.net.ops.tracing", str(self._folder), str(last), what),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(READ_S_MAX):
                    found, told = await process.communicate()
            except TimeoutError:
                error = f"the records were not read within {READ_S_MAX:.0f} s; `roamq trace` takes its time"
                return answered({"error": error}, "503 Service Unavailable")
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            reason = told.decode(errors="replace").strip().splitlines()[-1:]
            return answered({"error": reason[0] if reason else "records cannot be read"}, "400 Bad Request")
        return HttpResponse("200 OK", "application/json", found)
