"""The runner that makes a run on real broker processes. Commands hand it to a campaign, beside the simulator's."""

from roamq.fieldtest.run import run_job
from roamq.pipeline.jobs import AFTER_THE_RUN, Runner, simulation_files

LIVE_BROKERS = Runner(run=run_job, unrelated=(AFTER_THE_RUN | {"manet"}) - {"models"}, files=simulation_files)
"""Runs a scenario (its payload) on live brokers. Command line and models count as code of a run: the command
line starts broker processes, and these compute their outlook by the models."""
