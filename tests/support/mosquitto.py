"""Stand-ins for mosquitto_sub and mosquitto_pub, with the options that the pages use, where these are not installed."""

import argparse
import ssl
import sys
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

FAILURE = 128
"""From this reason code on, a subscription is refused."""


def main() -> None:
    name = Path(sys.argv[0]).name
    parse = argparse.ArgumentParser(add_help=False)
    parse.add_argument("-h", default="localhost")
    for option, kind in (("-p", int), ("-q", int), ("-C", int)):
        parse.add_argument(option, type=kind, default=0)
    for option in ("-i", "-t", "-m", "-u", "-P", "--cafile"):
        parse.add_argument(option)
    for option in ("-c", "-E"):
        parse.add_argument(option, action="store_true")
    options = parse.parse_args()
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=options.i, clean_session=not options.c)
    if options.u:
        client.username_pw_set(options.u, options.P)
    if options.cafile:
        client.tls_set(options.cafile, tls_version=ssl.PROTOCOL_TLS_CLIENT)
    received = 0

    def on_connect(_client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        if code.is_failure:
            sys.exit(f"Connection error: {code}")
        if name == "mosquitto_pub":
            client.publish(options.t, options.m, qos=options.q)
        else:
            client.subscribe(options.t, qos=options.q)

    def on_subscribe(_client: Any, _data: Any, _mid: int, codes: Any, _properties: Any) -> None:
        if all(code.value >= FAILURE for code in codes):
            print("All subscription requests were denied.", file=sys.stderr)  # noqa: T201 - a program
            client.disconnect()
        elif options.E:
            client.disconnect()

    def on_message(_client: Any, _data: Any, message: Any) -> None:
        nonlocal received
        print(message.payload.decode(), flush=True)  # noqa: T201 - a program
        received += 1
        if received == options.C:
            client.disconnect()

    def on_publish(_client: Any, _data: Any, _mid: int, _code: Any, _properties: Any) -> None:
        client.disconnect()

    client.on_connect = on_connect
    client.on_subscribe = on_subscribe
    client.on_message = on_message
    client.on_publish = on_publish
    client.connect(options.h, options.p)
    client.loop_forever()


if __name__ == "__main__":
    main()
