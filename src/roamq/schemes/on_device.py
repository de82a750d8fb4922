"""Subscriptions on the device: the client brings Sub(S) along, so that brokers need not send them.

Paper: [DIS] section 3.2.4. A modifier: it "can be combined with prefetching or logging" (section 3.2.5), and with
standard. The client "can directly send the subscriptions to the new broker upon reconnection": Broker 2 subscribes
at once, and what it sends to Broker 1 is the release of step 3. Steps 1 and 2 take no message.
Assumes: as the scheme it modifies; the subscriptions on the device are the ones that hold.
Departs: with prefetching the subscriptions still travel when the client disconnects, for it is not there to bring
them; the modifier shortens what follows a wrong prediction (docs/decisions/0033).
"""

from roamq.core.context import Context
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.messages import Release
from roamq.schemes.base import register
from roamq.schemes.claims import Arriving, Claim
from roamq.schemes.logging import Logging
from roamq.schemes.prefetching import Prefetching
from roamq.schemes.standard import Standard


class OnDevice(Standard):
    """What subscriptions on the device change in the standard algorithm and its kin."""

    carries_subscriptions = True

    def step_2_retrieve(
        self, arriving: Arriving, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """ "The old broker does not need to transfer the subscriptions to the new broker." """
        if not carried:  # a client that brings nothing is treated as before
            super().step_2_retrieve(arriving, old_broker)
            return
        self.step_3_subscribe(arriving, carried)
        self.step_3_release(arriving, old_broker)

    def on_release(self, new_broker: BrokerId, release: Release) -> None:
        """A release without a request before it is a claim as well."""
        if (release.client, release.epoch, release.new_broker) in self.leaving:
            super().on_release(new_broker, release)
        else:
            self.claim(self.claimed_by(release), release)

    def hand_over(self, context: Context, claim: Claim) -> None:
        if isinstance(claim, Release):
            self.part_with(context, claim.epoch, claim.new_broker)
            super().on_release(claim.new_broker, claim)
        else:
            super().hand_over(context, claim)

    def session_for(self, context: Context, release: Release) -> object | None:
        return context.session  # no message before this one has brought it


@register
class StandardOnDevice(OnDevice):
    name = "standard+on-device"


@register
class PrefetchingOnDevice(OnDevice, Prefetching):
    name = "prefetching+on-device"


@register
class LoggingOnDevice(OnDevice, Logging):
    """Broker 1 is released before it has offered its ids: it offers them, and step 5 waits for the answer."""

    name = "logging+on-device"

    def hand_over(self, context: Context, claim: Claim) -> None:
        if isinstance(claim, Release) and context.stored:
            self.part_with(context, claim.epoch, claim.new_broker).release = claim
            self.offer(context, claim)
        else:
            super().hand_over(context, claim)
