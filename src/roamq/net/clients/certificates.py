"""Client certificates: the user whom a certificate names, by the rule of its listener, and the time it ends.

TLS has checked that the authority of the listener vouches for the certificate. A certificate with no name by the rule,
or with several, lets nobody in: its meaning would depend on the order of its names.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from roamq.net.clients.names import names_user
from roamq.net.ops.options import CertificateName
from roamq.net.outputs import UserIdentity

CREDENTIAL: Final = "certificate"
"""The credential of every login by certificate (`UserIdentity.credential`)."""
_KINDS: Final = {CertificateName.DNS: "DNS", CertificateName.EMAIL: "email", CertificateName.URI: "URI"}


class CertifiedUser(str):
    """The user whom a certificate names."""

    __slots__ = ("ends_at",)
    ends_at: float | None
    """The time at which the certificate ends."""

    def identity(self, now: float) -> UserIdentity | None:
        """The identity of the client, until the certificate ends; None if the certificate has ended.

        TLS checks the end in a first handshake alone: a handshake that resumes another shows no certificate again.
        """
        if self.ends_at is not None and self.ends_at <= now:
            return None
        return UserIdentity(str(self), (), self.ends_at, CREDENTIAL)


def user_of(certificate: Mapping[str, Any] | None, rule: CertificateName) -> CertifiedUser | None:
    """The user whom a certificate of `SSLSocket.getpeercert` names; None if it names none."""
    if not certificate:
        return None
    if rule is CertificateName.COMMON_NAME:
        pairs = [pair for part in certificate.get("subject", ()) for pair in part]
        names = [value for key, value in pairs if key == "commonName"]
    else:
        names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == _KINDS[rule]]
    if len(names) != 1 or not names_user(names[0]):
        return None
    user = CertifiedUser(names[0])
    ends = certificate.get("notAfter")
    user.ends_at = None if ends is None else float(ssl.cert_time_to_seconds(ends))
    return user
