"""`roamq plan`: what the models say, before anything is built or simulated."""

import click

from roamq.cli.plan.capacity import capacity
from roamq.cli.plan.mobility import mobility
from roamq.cli.plan.regions import regions
from roamq.cli.plan.response_time import response_time
from roamq.cli.plan.transfer_cost import transfer_cost


@click.group()
def command() -> None:
    """The models: brokers, throughput, response times, buffers. Answers in a second.

    Each question is asked by options, by a TOML file with the same names, or by a preset: the examples
    that the papers print, with their figures beside ours.

    \b
    Examples:
      roamq plan response-time --preset metro-1
      roamq plan mobility --edges a-b,b-c,c-a --subscribers 500
      roamq plan capacity plan.toml --clients 20000 --json
    """


for _subcommand in (mobility, response_time, regions, transfer_cost, capacity):
    command.add_command(_subcommand)
