"""How predictable a sequence of places is: its entropy rate, and the bound on any predictor that follows from it.

Song, Qu, Blumm, Barabasi, "Limits of predictability in human mobility", Science 327 (2010); the estimator of the
entropy rate is that of Kontoyiannis et al., IEEE Transactions on Information Theory 44 (1998). Entropies are in bits.
"""

import math
from collections.abc import Hashable, Sequence

TOLERANCE = 1e-12


def shortest_new(places: Sequence[Hashable]) -> list[int]:
    """For each position the length of the shortest sequence that begins there and does not occur before it.

    Where all that is left occurs before, that is one more than what is left. The suffix automaton of what came before
    finds all of them in a time that grows with the length of the sequence, not with its square.
    """
    automaton = _Automaton()
    lengths = []
    state = matched = 0
    for position, place in enumerate(places):
        while position + matched < len(places):
            following = automaton.edges[state].get(places[position + matched])
            if following is None:
                break
            state, matched = following, matched + 1
        lengths.append(matched + 1)
        automaton.extend(place)
        if matched:
            # What matched here matches from the next position without its first place.
            matched -= 1
        # The new place may have split a state: go to the one that stands for what is matched now.
        while state and matched <= automaton.length[automaton.link[state]]:
            state = automaton.link[state]
    return lengths


class _Automaton:
    """The suffix automaton of a growing sequence: every path from state 0 is a sequence that occurs in it."""

    def __init__(self) -> None:
        self.edges: list[dict[Hashable, int]] = [{}]
        self.length = [0]
        self.link = [-1]
        self._last = 0

    def extend(self, place: Hashable) -> None:
        new = self._add(self.length[self._last] + 1, {})
        state = self._last
        while state != -1 and place not in self.edges[state]:
            self.edges[state][place] = new
            state = self.link[state]
        if state == -1:
            self.link[new] = 0
        else:
            target = self.edges[state][place]
            if self.length[target] == self.length[state] + 1:
                self.link[new] = target
            else:
                copy = self._add(self.length[state] + 1, dict(self.edges[target]))
                self.link[copy] = self.link[target]
                while state != -1 and self.edges[state].get(place) == target:
                    self.edges[state][place] = copy
                    state = self.link[state]
                self.link[target] = self.link[new] = copy
        self._last = new

    def _add(self, length: int, edges: dict[Hashable, int]) -> int:
        self.edges.append(edges)
        self.length.append(length)
        self.link.append(0)
        return len(self.length) - 1


def real_entropy(places: Sequence[Hashable]) -> float:
    """The entropy rate of a sequence: what is new in each step given all before, by the lengths of repetitions.

    >>> round(real_entropy("ab" * 50), 2)
    0.25
    """
    if len(places) < 2:
        return 0.0
    return len(places) * math.log2(len(places)) / sum(shortest_new(places))


def predictability(entropy: float, places: int) -> float:
    """The largest share of steps that any predictor can get right, by Fano's inequality: the p for which
    `H(p) + (1 - p) * log2(places - 1) = entropy`.

    `places` is the number of places that a step may lead to.

    >>> round(predictability(1.0, 2), 3), round(predictability(0.8, 45), 3)
    (0.5, 0.905)
    """
    if places < 2 or entropy <= 0:
        return 1.0
    if entropy >= math.log2(places):
        return 1 / places

    def uncertainty(share: float) -> float:
        left = 1 - share
        chance = -(share * math.log2(share) + left * math.log2(left)) if 0 < share < 1 else 0.0
        return chance + left * math.log2(places - 1)

    low, high = 1 / places, 1.0  # the uncertainty falls from log2(places) to 0 between them
    while high - low > TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if uncertainty(middle) > entropy else (low, middle)
    return (low + high) / 2
