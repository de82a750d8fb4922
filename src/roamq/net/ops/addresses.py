"""Addresses that brokers listen at: can computers of strangers reach them?"""

import ipaddress


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_open_to_anonymous(host: str, to: str) -> bool:
    """Whether a listener at this address lets clients in without a user name, if `access.anonymous` is `to`."""
    return to == "always" or (to == "loopback" and is_loopback(host))
