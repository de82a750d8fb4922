"""Samples of live brokers become the records of a simulated run, whatever happens to the brokers meanwhile."""

import asyncio
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from roamq.core.records import Record
from roamq.fieldtest.samples import BrokerSamples, Crossing, last_hops, traffic_records
from roamq.net.ops.local import free_ports

METRICS = """\
# TYPE roamq_stored_events gauge
roamq_stored_events {stored}
# TYPE roamq_stored_bytes gauge
roamq_stored_bytes {bytes}
# TYPE roamq_link_sent_messages_total counter
roamq_link_sent_messages_total{{kind="context",way="begun"}} {begun}
roamq_link_sent_messages_total{{kind="context",way="passed_on"}} {passed_on}
# TYPE roamq_link_sent_bytes_total counter
roamq_link_sent_bytes_total{{kind="context"}} {sent}
"""


@contextmanager
def answering(text: dict[str, str]) -> Iterator[int]:
    """A port that answers with the text of now."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text["now"].encode())

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_broker_that_was_killed_counts_from_its_new_beginning() -> None:
    text = {"now": METRICS.format(stored=2, bytes=300, begun=5, passed_on=1, sent=900)}
    time = [10.0]
    with answering(text) as port:
        samples = BrokerSamples({"b1": port}, lambda: time[0])
        asyncio.run(samples.take())
        time[0] = 12.0
        text["now"] = METRICS.format(stored=0, bytes=0, begun=1, passed_on=0, sent=100)
        asyncio.run(samples.take())
    assert samples.levels == [
        Record("buffer", 10.0, "b1", count=2, bytes=300),
        Record("buffer", 12.0, "b1", count=0, bytes=0),
    ]
    assert samples.crossings == [Crossing(5.0, "context", 5, 6, 900), Crossing(11.0, "context", 1, 1, 100)]


def test_a_broker_that_is_down_is_left_out() -> None:
    text = {"now": METRICS.format(stored=1, bytes=10, begun=1, passed_on=1, sent=20)}
    with answering(text) as port:
        samples = BrokerSamples({"b1": free_ports(1)[0], "b2": port}, lambda: 1.0)
        asyncio.run(samples.take())
    assert [level.broker for level in samples.levels] == ["b2"]


def test_last_hops_are_counted_by_what_clients_received_and_how_it_came() -> None:
    sizes = {("p0", 1): 40, ("p0", 2): 60}
    delivered = [
        Record("delivered", 0.5, "b1", "c1", "p0", 1, detail="live"),
        Record("delivered", 1.5, "b1", "c1", "p0", 2, detail="transferred"),
    ]
    found = traffic_records(last_hops(delivered, sizes), bin_s=1.0)
    assert found == [
        Record("traffic", 1.0, detail="delivery", count=1, hops=1, bytes=40),
        Record("traffic", 2.0, detail="stored_delivery", count=1, hops=1, bytes=60),
    ]
