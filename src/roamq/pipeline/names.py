"""The names that a notebook uses, from the modules that have them; `roamq.pipeline` loads them from here."""

from roamq.pipeline.api import LoadedTrace as LoadedTrace
from roamq.pipeline.api import duration_curves as duration_curves
from roamq.pipeline.api import fit_durations as fit_durations
from roamq.pipeline.api import load_trace as load_trace
from roamq.pipeline.api import predict_next_site as predict_next_site
from roamq.pipeline.api import predict_online as predict_online
from roamq.pipeline.api import study_trace as study_trace
from roamq.pipeline.gold import days as days
from roamq.pipeline.gold import neighbor_graph as neighbor_graph
from roamq.pipeline.mobility.predictability import entropies as entropies
from roamq.pipeline.mobility.predictability import sampled as sampled
from roamq.pipeline.mobility.predictability import visits as visits
from roamq.pipeline.mobility.privacy import anonymity as anonymity
from roamq.pipeline.mobility.privacy import pseudonymise as pseudonymise
from roamq.pipeline.mobility.privacy import reidentification_risk as reidentification_risk
from roamq.pipeline.mobility.stay_points import stay_points as stay_points
from roamq.pipeline.mobility.travel import home_and_work as home_and_work
from roamq.pipeline.mobility.travel import origin_destination as origin_destination
from roamq.pipeline.mobility.travel import radius_of_gyration as radius_of_gyration
from roamq.pipeline.rules import Rules as Rules
from roamq.pipeline.silver import moves as moves
from roamq.pipeline.silver import sojourns as sojourns
from roamq.pipeline.silver import split_at_midnight as split_at_midnight
from roamq.pipeline.traces import TraceFormat as TraceFormat
from roamq.pipeline.traces.mapping import Mapping as Mapping
from roamq.pipeline.warehouse import open_tables as open_tables
