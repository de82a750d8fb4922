"""`roamq plan`: what the models say, before anything is built or simulated."""

import os

import click

from roamq.cli.groups import SentenceGroup
from roamq.cli.plan.capacity import capacity
from roamq.cli.plan.check import check
from roamq.cli.plan.mobility import mobility
from roamq.cli.plan.regions import regions
from roamq.cli.plan.response_time import response_time
from roamq.cli.plan.schemes import schemes
from roamq.cli.plan.transfer_cost import transfer_cost


@click.group(cls=SentenceGroup)
def command() -> None:
    """Ask the models about brokers, throughput, response times and buffers. An answer takes about a second.

    Give the parameters as options, in a TOML file with the same names, or by a preset: an example that a paper
    prints, with the paper's figures beside ours.

    \b
    Examples:
      roamq plan response-time --preset metro-1
      roamq plan mobility --edges a-b,b-c,c-a --subscribers 500
      roamq plan capacity --preset city --clients 30000 --json
      roamq plan check runs/testbed
    """
    # The matrices are small. On a busy machine, threads that wait for each other cost up to fifty times their gain.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


for _subcommand in (mobility, response_time, regions, transfer_cost, schemes, capacity, check):
    command.add_command(_subcommand)
