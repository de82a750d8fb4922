"""The runner that makes a run on real broker processes. Commands hand it to a campaign, beside the simulator's."""

from roamq.fieldtest.run import run_job
from roamq.pipeline.jobs import AFTER_THE_RUN, Runner, simulation_files

LIVE_BROKERS = Runner(run=run_job, unrelated=(AFTER_THE_RUN | {"manet"}) - {"models"}, files=simulation_files)
"""Runs a scenario, its payload. The code of a run includes the command line, which starts broker processes, and the
models, by which they compute their outlook."""
