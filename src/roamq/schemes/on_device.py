"""Subscriptions on the device: the client brings Sub(S) along, so that brokers need not send them.

Paper: [DIS] section 3.2.4. A modifier: it "can be combined with prefetching or logging" (section 3.2.5), and with
standard. The client "can directly send the subscriptions to the new broker upon reconnection": Broker 2 subscribes
at once, and its first message to Broker 1 is the release of step 3. Steps 1 and 2 take no message; the hand-over
(`parts/handover.py`) accepts a release without a request before it as a claim.
Assumes: as the scheme it modifies; the subscriptions on the device are the ones that hold.
Departs: with prefetching the subscriptions still travel when the client disconnects, for the client is not there to
bring them; the modifier shortens what follows a wrong prediction (docs/decisions/0033).
"""

from typing import Final

from roamq.schemes.base import Scheme
from roamq.schemes.logging import Logging
from roamq.schemes.prefetching import Prefetching
from roamq.schemes.standard import Standard

SUFFIX: Final = "+on-device"

MODIFIED: Final[tuple[type[Scheme], ...]] = (Standard, Prefetching, Logging)
"""The schemes that have a variant with subscriptions on the device: `standard+on-device` and its kin."""
