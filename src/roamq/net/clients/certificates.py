"""Client certificates: the user whom a certificate names, by the rule of its listener, and until when.

TLS has checked that the authority of the listener vouches for the certificate. A certificate that names nobody by the
rule, or several, lets nobody in: what it means would depend on the order of its names.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from roamq.net.clients.names import names_user
from roamq.net.ops.options import CertificateName
from roamq.net.outputs import UserIdentity

CREDENTIAL: Final = "certificate"
"""What a login by certificate rests on."""
_KINDS: Final = {CertificateName.DNS: "DNS", CertificateName.EMAIL: "email", CertificateName.URI: "URI"}


class CertifiedUser(str):
    """The user whom a certificate names."""

    __slots__ = ("ends_at",)
    ends_at: float | None
    """When the certificate ends."""

    def identity(self, now: float) -> UserIdentity | None:
        """Who the client is, until the certificate ends; None if it has ended.

        TLS looks at that in a first handshake alone: one that resumes another shows no certificate again.
        """
        if self.ends_at is not None and self.ends_at <= now:
            return None
        return UserIdentity(str(self), (), self.ends_at, CREDENTIAL)


def user_of(certificate: Mapping[str, Any] | None, rule: CertificateName) -> CertifiedUser | None:
    """The user, from a certificate as `SSLSocket.getpeercert` gives it; None if it names none."""
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
