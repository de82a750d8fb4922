"""Client certificates: the user whom a certificate names, by the rule of its listener.

TLS has checked that the authority of the listener vouches for the certificate. A certificate that names nobody by the
rule, or several, lets nobody in: what it means would depend on the order of its names.
"""

from collections.abc import Mapping
from typing import Any, Final

from roamq.net.ops.options import CertificateName
from roamq.net.ops.settings import ANONYMOUS, ANYBODY

_KINDS: Final = {CertificateName.DNS: "DNS", CertificateName.EMAIL: "email", CertificateName.URI: "URI"}


def user_of(certificate: Mapping[str, Any] | None, rule: CertificateName) -> str | None:
    """The user, from a certificate as `SSLSocket.getpeercert` gives it; None if it names none."""
    if not certificate:
        return None
    if rule is CertificateName.COMMON_NAME:
        pairs = [pair for part in certificate.get("subject", ()) for pair in part]
        names = [value for key, value in pairs if key == "commonName"]
    else:
        names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == _KINDS[rule]]
    if len(names) != 1 or names[0] in ("", ANONYMOUS, ANYBODY):
        return None
    return str(names[0])
