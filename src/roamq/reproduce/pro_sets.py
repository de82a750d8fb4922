"""The sets of unprinted parameters that [PRO]'s claims are judged over, as `benchmarks/identify_pro.py` found them."""

import json
from functools import cache
from pathlib import Path
from typing import Final

from roamq.reproduce.pro_prior import ParameterSet

TABLE: Final = Path(__file__).with_name("pro_sets.json")


@cache
def named_sets() -> dict[str, ParameterSet]:
    """By the names that verdicts use (A, B, ...); closest to what the paper prints first."""
    found = json.loads(TABLE.read_text())
    return {f"set {chr(ord('A') + index)}": one for index, one in enumerate(found)}
