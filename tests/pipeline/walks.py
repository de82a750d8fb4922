"""Synthetic walks, made by the standard library alone: other tools can be given the same ones."""

import random
from datetime import UTC, datetime, timedelta

START = datetime(2024, 1, 1, tzinfo=UTC)
PLACES = [(13.0 + 0.01 * (n % 4), 52.0 + 0.01 * (n // 4)) for n in range(12)]


def positions(clients: int = 4, stays: int = 12, seed: int = 7) -> list[tuple[str, datetime, float, float]]:
    """Clients that stay near one of twelve places for a while and drive to the next; a position every minute."""
    draw = random.Random(seed)
    rows = []
    for number in range(clients):
        at, place = START, draw.choice(PLACES)
        for _ in range(stays):
            for _ in range(draw.randint(2, 45)):
                rows.append(
                    (f"c{number}", at, place[0] + draw.gauss(0, 0.0003), place[1] + draw.gauss(0, 0.0003))
                )
                at += timedelta(minutes=1)
            other = draw.choice([one for one in PLACES if one != place])
            for step in range(1, 6):
                share = step / 6
                rows.append(
                    (
                        f"c{number}",
                        at,
                        place[0] + share * (other[0] - place[0]),
                        place[1] + share * (other[1] - place[1]),
                    )
                )
                at += timedelta(minutes=1)
            place = other
    return rows


def visited(clients: int = 6, visits: int = 150, seed: int = 3) -> list[tuple[str, datetime, str]]:
    """Clients that walk round some of eight places in an order of their own and sometimes stray."""
    draw = random.Random(seed)
    rows = []
    for number in range(clients):
        round_trip = draw.sample("abcdefgh", 3 + number % 5)
        for visit in range(visits):
            place = (
                draw.choice("abcdefgh")
                if draw.random() < 0.1 * number
                else round_trip[visit % len(round_trip)]
            )
            rows.append((f"c{number}", START + timedelta(hours=visit), place))
    return rows
