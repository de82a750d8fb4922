"""Brokers come and go: this broker's account of the network, and what it does when the account changes.

A change travels over all links, and a broker passes it on before it acts on it. Links keep their order, so a neighbour
has heard of a broker before anything else that is about that broker. A broker that begins anew is told of all brokers
before it gets the frames that its neighbours kept for it.
"""

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from roamq.broker.broker import Broker
from roamq.core.context import Epoch, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Routed
from roamq.net.broker_names import NAMED_WITH, names_broker
from roamq.net.clients.access import Access
from roamq.net.clients.admission import Admission
from roamq.net.clients.confirmations import Confirmations
from roamq.net.host import LiveHost
from roamq.net.links import wire
from roamq.net.links.lives import MICROSECONDS
from roamq.net.links.members import (
    Farewell,
    FarewellHeard,
    Member,
    MemberState,
    NetworkTold,
    Returned,
    published_ever,
    version_of,
)
from roamq.net.links.others import OtherBrokers
from roamq.net.links.outboxes import Outboxes
from roamq.net.topics.directory import Adopt, Directory
from roamq.net.topics.memberships import Memberships
from roamq.net.topics.tables import Tables
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.topology import Topology
from roamq.schemes.parts.part import Departure

FAREWELL_TIMER: Final = "farewell"
"""The timer of a leaving broker: it asks again the brokers that have not heard where its sessions are."""
FAREWELL_S: Final = 1.0
WENT_MAX: Final = 10_000
"""Most contexts of which a leaving broker tells where they went; claims to older ones are not under way any more."""

BESIDE_MAX: Final = 16
"""Most edge brokers that may be linked with each other: the core carries each of these links."""


class Membership:
    """The brokers of the network, as this one knows them."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        topology: Topology,
        outboxes: Outboxes,
        others: OtherBrokers,
        directory: Directory,
        places: Memberships,
        confirmations: Confirmations,
        admission: Admission,
        tables: Tables,
        access: Access,
    ) -> None:
        self.members: dict[BrokerId, Member] = {}
        """Broker that joined later or has gone -> its state."""
        self.unheard: set[BrokerId] | None = None
        """While this broker leaves: the brokers that have not heard where its sessions are."""
        self._last_words: int | None = None
        """The number of the first farewell that was sent after all sessions had gone; None while this broker has or
        gets some."""
        self._went: dict[BrokerId, dict[ClientId, Epoch]] = {}
        """Broker that is about to leave -> client -> the connection to which its context went."""
        self._host = host
        self._broker = broker
        self._topology = topology
        self._outboxes = outboxes
        self._others = others
        self._directory = directory
        self._places = places
        self._confirmations = confirmations
        self._admission = admission
        self._tables = tables
        self._access = access

    @property
    def version(self) -> int:
        return version_of(self.members)

    @property
    def has_left(self) -> bool:
        """Whether this broker is not of the network any more."""
        mine = self.members.get(self._host.me)
        return mine is not None and mine.is_gone

    # --- what operators want ----------------------------------------------------------------------------------

    def joining(
        self,
        name: str,
        at: tuple[str, ...],
        reference: str = "",
        position: tuple[float, float] | None = None,
        publishes: Iterable[str] | None = None,
        beside: Collection[BrokerId] = (),
    ) -> Member:
        """The change by which a broker joins; raises ValueError if it cannot join.

        `beside`: edge brokers with which a link could be carried.
        """
        known, core = self.members.get(BrokerId(name)), self._topology.core
        if not names_broker(name):
            raise ValueError(f"{name!r} is no name for a broker: {NAMED_WITH}")
        if name in core:
            raise ValueError(f"{name!r} is a broker of the first configuration already; choose another name")
        if known is not None and not known.is_gone:
            raise ValueError(
                f"{name!r} has joined already, at {', '.join(known.at)}; let it leave first, or choose another name"
            )
        if not at:
            raise ValueError("name a broker that the new one is linked with")
        if self.has_left:
            raise ValueError(f"{self._host.me!r} has left the network itself: ask another broker")
        for core_broker in at:
            if core_broker not in core:
                why = "joined later itself, and carries nothing for others"
                reason = why if core_broker in self.members else "is no broker of the network"
                raise ValueError(f"{core_broker!r} {reason}; name one of {', '.join(self._staying)}")
            if core_broker not in self._staying:
                raise ValueError(
                    f"{core_broker!r} has left or leaves; name one of {', '.join(self._staying)}"
                )
        if isinstance(self._broker.router, Hierarchy):
            raise ValueError(
                "network.overlay is 'hierarchy', in which every broker has its place from the beginning; brokers join "
                "networks whose overlay is 'interest' or 'flooding'"
            )
        life = max(int(self._host.time * MICROSECONDS), 0 if known is None else known.life + 1)
        linked = sorted({BrokerId(one) for one in at})
        return Member(
            name=BrokerId(name),
            life=life,
            at=tuple(linked),
            reference=reference,
            position=position,
            changes=1 if known is None else known.changes + 1,
            publishes=published_ever(known, publishes),
            beside=self._linked_beside(linked, beside),
        )

    def _linked_beside(self, at: Collection[BrokerId], beside: Collection[BrokerId]) -> tuple[str, ...]:
        """The marks of the edge brokers that a new edge broker is linked with.

        An edge broker that is linked with the whole core can do without any one core broker. Two of that kind have a
        link with each other, so that no core broker stands between them.
        """
        if not set(self._staying).issubset(at):
            return ()
        return tuple(self.members[one].mark for one in self.edges_in_between if one in beside)

    def departing(self, name: str, state: MemberState) -> Member:
        """The change by which a broker leaves or is forgotten; raises ValueError if it cannot go."""
        broker = BrokerId(name)
        known = self.members.get(broker)
        if known is None and broker in self._topology.core:
            known = Member(name=broker, life=0, at=(), changes=0)
        if known is None:
            raise ValueError(f"{name!r} is no broker of the network")
        if known.is_gone:
            raise ValueError(f"{name!r} is gone already ({known.state})")
        if not self._broker.scheme.lets_brokers_depart:
            raise ValueError("the network's scheme keeps contexts at brokers for good: brokers cannot leave")
        if broker in self._topology.core:
            self._check_nobody_sends_through(broker)
        return msgspec.structs.replace(known, state=state, changes=known.changes + 1)

    def _check_nobody_sends_through(self, broker: BrokerId) -> None:
        """Raise ValueError if a broker of the core is in the middle of a path, with the names of the path's two
        ends."""
        if isinstance(self._broker.router, Hierarchy):
            raise ValueError("network.overlay is 'hierarchy', in which every broker keeps its place")
        if mates := self._others.mates_of(broker):
            raise ValueError(
                f"{broker!r} is a process of one broker with {', '.join(mates)}: they cannot leave alone"
            )
        pair = self._broker.router.pair_through(broker)
        if pair is None:
            return
        joined = [one for one in pair if one in self.members]
        if joined:
            what = f"let {joined[0]!r} leave before, and join again afterwards"
        else:
            what = (
                f'link {pair[0]!r} with {pair[1]!r}, by network.links or `paths = "direct"`, and start all brokers '
                "with empty folders when they are drained; or drain this one and let it run without clients"
            )
        raise ValueError(
            f"what {pair[0]!r} and {pair[1]!r} have for each other goes through {broker!r}: {what}"
        )

    @property
    def edges_in_between(self) -> list[BrokerId]:
        """The edge brokers to which others carry links of edge brokers: the first that came of those that are linked
        with the whole core. They are few, so that these links are not too many."""
        core = set(self._staying)
        found = [one for one in self.members.values() if not one.is_gone and core.issubset(one.at)]
        found = [one for one in found if one.name not in core and one.name not in self._others.leaving]
        return [one.name for one in sorted(found, key=lambda one: one.life)[:BESIDE_MAX]]

    @property
    def core_others(self) -> list[BrokerId]:
        """The brokers of the core that are there and do not leave, without this one."""
        return [one for one in self._staying if one != self._host.me]

    @property
    def positions(self) -> dict[str, tuple[float, float] | None]:
        """Broker that joined later and is here -> the position that it gave."""
        return {name: one.position for name, one in self.members.items() if not one.is_gone}

    @property
    def has_edge_links(self) -> bool:
        """Whether edge brokers are linked with each other."""
        return any(member.beside for member in self.members.values() if not member.is_gone)

    @property
    def _staying(self) -> list[BrokerId]:
        """The brokers of the core that are there and do not leave."""
        gone = self._topology.departed | self._others.leaving
        leaves = {self._host.me} if self.unheard is not None or self.has_left else set()
        return sorted(self._topology.core - gone - leaves)

    # --- changes ------------------------------------------------------------------------------------------------

    def learn(self, member: Member, by: BrokerId | None = None) -> None:
        """A neighbour or an operator says that a broker has joined, left or is forgotten: pass it on, and act on it."""
        known = self.members.get(member.name)
        if known is not None and not member.is_later_than(known):
            return
        told = NetworkTold.of([member])
        for neighbour in self._topology.neighbours[self._host.me]:
            if neighbour != by:
                self._host.send(neighbour, told)
        self.members[member.name] = member
        if member.name == self._host.me:
            self._learn_own(known, member)
            return
        is_core = member.name in self._topology.core
        if not is_core and (known is None or known.life < member.life):
            if member.name in self._topology.brokers:
                self._depart(member.name, is_lost=True)
            self._attach(member)
        if member.is_gone:
            self._depart(member.name, is_lost=member.state == "forgotten")

    def on_told(self, sender: BrokerId, message: NetworkTold) -> None:
        """Learn all changes that a neighbour tells. A broker that joins learns of itself first, and so of its own
        links."""
        for member in sorted(message.read(), key=lambda one: one.name != self._host.me):
            self.learn(member, sender)

    def tell_first(self, neighbour: BrokerId) -> None:
        """Tell a neighbour that has forgotten of all brokers, before the frames that were kept for it."""
        if self.members:
            self._outboxes.put_first(neighbour, NetworkTold.of(self.members.values()))

    def _learn_own(self, known: Member | None, member: Member) -> None:
        is_core = member.name in self._topology.core
        if not is_core and (known is None or known.life != member.life):
            self._access.narrow(member.publishes)  # whatever the file of this broker says
            self._broker.router.broker_joined(member.name, member.mark)
            if known is not None:
                self._meet_edges_again(member)
                self._broker.router.doubt()  # since it left, others have not told it what they want
        if member.is_gone and self.unheard is None:
            self._host.out.notices.append(
                f"this broker is not of the network any more ({member.state}): stop it. To bring it back, move its "
                "data folder away and join again"
            )

    def _meet_edges_again(self, mine: Member) -> None:
        """Renew the links with other edge brokers: this life of the broker may be linked with others than the one
        before."""
        for name in sorted(self._topology.attached.keys() & set(self._topology.brokers)):
            is_linked = name in self._topology.neighbours[self._host.me]
            if name != self._host.me and mine.is_linked_with(self.members[name]) != is_linked:
                self._depart(name, is_lost=False)
                self._attach(self.members[name])

    def _attach(self, member: Member) -> None:
        name = member.name
        self._attach_to_topology(member)
        self._others.renew(self.members)
        if name in self._topology.neighbours[self._host.me]:
            self._outboxes.begin(name, int(self._host.time * MICROSECONDS))
            self._host.send(name, NetworkTold.of(self.members.values()))
        self._broker.router.broker_joined(name, member.mark)
        self._broker.on_joined(name)
        if not member.is_gone:
            self._tables.tell_own(name)

    def _attach_to_topology(self, member: Member) -> None:
        known = set(self._topology.all_brokers)
        beside = [o.name for o in self.members.values() if o.name in known and o.is_linked_with(member)]
        self._topology.attach(member.name, member.at, member.publishes, beside)

    def _depart(self, name: BrokerId, *, is_lost: bool) -> None:
        """Keep nothing for a broker that is gone, and wait for nothing from it."""
        unsent = self._outboxes.drop(name)
        self._outboxes.release(name)  # nobody waits for the markers of this broker
        self._host.out.frames.pop(name, None)
        self._topology.depart(name)
        self._broker.router.broker_departed(name)
        self._others.renew(self.members)
        self._directory.forget_broker(name)
        self._places.broker_departed(name)
        self._broker.on_departed(name, Departure(is_lost, self._went.pop(name, {})))
        self._admission.broker_departed(name)
        self._confirmations.look()
        if self.unheard is not None:
            self.unheard.discard(name)
            self._leave_if_heard()
        self._return_all(unsent)
        self._say_who_is_alone()

    def _say_who_is_alone(self) -> None:
        """Tell operators of edge brokers without a link: one may have joined at a broker that was declared dead just
        then."""
        for name in self._topology.attached:
            linked = self._topology.neighbours.get(name, self._topology.core)
            if self._topology.core.isdisjoint(linked):
                self._host.out.notices.append(
                    f"the brokers that {name} is linked with are gone: declare it dead (`roamq forget`), and let it "
                    "join again"
                )

    def rewire(self) -> None:
        """The state was read from a snapshot: restore the topology of that time."""
        for member in self.members.values():
            if member.name != self._host.me:
                if member.name not in self._topology.core:
                    self._attach_to_topology(member)
                if member.is_gone:
                    self._topology.depart(member.name)
            else:
                self._access.narrow(member.publishes)
        self._others.renew(self.members)
        self._broker.router.rewired()
        self._outboxes.rewired()

    # --- messages that cannot arrive ------------------------------------------------------------------------------

    def _return_all(self, unsent: list[bytes]) -> None:
        for data in unsent:
            message = wire.decode(data)
            if isinstance(message, Routed) and self._broker.router.is_departed(message.to):
                self.send_back(message)

    def send_back(self, routed: Routed) -> None:
        """Tell the sender of a message that its receiver has departed, so that the sender need not wait."""
        if routed.sender == self._host.me:
            self._broker.mailbox.returned(routed.to, routed.message)
        elif not isinstance(routed.message, Returned):
            self._others.tell(routed.sender, Returned(to=routed.to, message=routed.message))

    def on_returned(self, sender: BrokerId, returned: Returned) -> None:
        self._broker.mailbox.returned(returned.to, returned.message)

    # --- this broker leaves -----------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Begin to leave: other brokers have the sessions. When all of them know where, this broker leaves the
        network."""
        self.unheard, self._last_words = set(self._others.names), None
        self.ask_unheard()

    def ask_unheard(self) -> None:
        """Ask again the brokers that have not heard where sessions are, and hand over those sent here since.

        An answer counts if its farewell was sent behind all sessions: then these have come where they went.
        """
        if self.unheard is not None and not self.has_left:
            number = int(self._host.time * MICROSECONDS)
            if self._holds_sessions():
                self._admission.drain()
                self._last_words = None
            elif self._last_words is None:
                self._last_words = number
            if self._last_words in (None, number):
                self.unheard = set(self._others.names)  # all brokers must hear where these sessions go
            went = dict(list(self._broker.scheme.parts.went().items())[-WENT_MAX:]) if self.unheard else {}
            for name in sorted(self.unheard):
                self._others.tell(name, Farewell(went=went, number=number))
            self._host.set_timer((FAREWELL_TIMER,), FAREWELL_S)
            self._leave_if_heard()

    def on_adopt(self, sender: BrokerId, message: Adopt) -> None:
        """Take a session from a broker that does not know that this one leaves."""
        self._last_words = None
        self._admission.on_adopt(sender, message)

    def on_farewell(self, sender: BrokerId, message: Farewell) -> None:
        """Note that the sender leaves: no session goes to it from now on."""
        self._others.spare(sender)
        self._went[sender] = {ClientId(client): epoch for client, epoch in message.went.items()}
        sessions = self._directory.count_at(sender)
        self._others.tell(sender, FarewellHeard(sessions=sessions, number=message.number))

    def on_farewell_heard(self, sender: BrokerId, message: FarewellHeard) -> None:
        if self.unheard is None or message.sessions or self._last_words is None:
            return
        if not message.number or message.number >= self._last_words:
            self.unheard.discard(sender)
            self._leave_if_heard()

    def _holds_sessions(self) -> bool:
        broker = self._broker
        return bool(broker.scheme.on_the_way()) or any(
            context.mode is not Mode.PASSIVE for context in broker.contexts.values()
        )

    def _leave_if_heard(self) -> None:
        if self.unheard or self.unheard is None or self.has_left or self._holds_sessions():
            return
        if self._last_words is None:
            return
        self._host.cancel_timer((FAREWELL_TIMER,))
        try:
            change = self.departing(self._host.me, "left")
        except ValueError as error:  # a broker has joined at this one meanwhile
            self.unheard = None
            self._host.out.notices.append(f"this broker stays: {error}")
            return
        self.learn(change)

    # --- what operators ask -----------------------------------------------------------------------------------------

    def clients_at(self, broker: BrokerId) -> list[ClientId]:
        """The clients whose session is at `broker`, as far as this broker knows."""
        return sorted(client for client, entry in self._directory.items() if entry.epoch.broker == broker)
