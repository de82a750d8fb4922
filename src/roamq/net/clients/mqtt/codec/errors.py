"""The one exception that bytes from a peer can cause."""

from typing import TYPE_CHECKING

from roamq.core.errors import RemoteProtocolError
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode

if TYPE_CHECKING:
    from roamq.net.clients.mqtt.codec.packets import Packet, Version


class MqttError(RemoteProtocolError):
    """The peer broke a rule of MQTT: close its connection with `reason` ([MQTT-4.13.1-1])."""

    def __init__(self, message: str, reason: ReasonCode = ReasonCode.MALFORMED_PACKET) -> None:
        super().__init__(message)
        self.reason = reason
        self.decoded: list[Packet] = []
        """Whole packets that came before the mistake in the same bytes: the peer has sent them, and they count."""
        self.version: Version | None = None
        """The version of the answer, once CONNECT has been read far enough to know it."""
