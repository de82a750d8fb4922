"""What the papers claim: one row each, with the paper's own figure. `docs/papers.md` resolves the keys."""

from typing import Final, NamedTuple


class Published(NamedTuple):
    id: str
    paper: str
    title: str
    value: str
    """The paper's figure, as it prints it or as it is read off its plot."""


PUBLISHED: Final[tuple[Published, ...]] = (
    Published(
        "PRO-ctmc-rnd",
        "PRO",
        "Markov chain of subscribers that move anywhere: stationary probabilities and throughput per broker",
        "P=0.147679, pi1=0.025316, pi2=0.088608 (N=6, Ta=3, Td=12, Tb=60); 29.5358 of 200; 218.983 msg/s",
    ),
    Published(
        "PRO-ctmc-nbr",
        "PRO",
        "Markov chain of subscribers that move to neighbors: Table 5",
        "0.1099 0.1648 0.2198 0.1099 0.0549 0.2198; disconnect+handoff 0.1209",
    ),
    Published(
        "PRO-fit",
        "PRO",
        "A cubic fitted on RND runs predicts the throughput per broker under NBR (Fig. 12, 13)",
        "R2 0.9198",
    ),
    Published(
        "PRO-T2",
        "PRO",
        "Throughput per subscriber at 10/100/200 subscribers: pro-active > reactive > durable everywhere",
        "NBR lifts pro-active by 14.5/18.1/21.1%, lowers the others slightly",
    ),
    Published(
        "PRO-T3",
        "PRO",
        "Message loss: pro-active lowest and falling with population, reactive rising, durable about flat",
        "pro-active 2.25 to 0.58% RND, 1.26 to 0.51% NBR; reactive 3.65 to 9.62% RND; durable 3 to 5%",
    ),
    Published(
        "PRO-T4",
        "PRO",
        "Duplicates: none with pro-active",
        "pro-active 0; reactive 0.8 to 2.1%; durable 11 to 17%; slightly less under NBR",
    ),
    Published(
        "PRO-F5",
        "PRO",
        "End-to-end latency: reactive >> pro-active > durable",
        "37-42% of reactive's consumed messages came by state transfer at 200 subscribers",
    ),
    Published(
        "PRO-F6",
        "PRO",
        "Distribution of the handoff latency",
        "60% of handoffs: reactive over 1.2 s, pro-active under 0.35 s, durable under 0.05 s",
    ),
    Published(
        "PRO-F7",
        "PRO",
        "Fewer handoffs help pro-active and durable, not reactive",
        "at Tb=150 slightly more throughput, significantly less loss and duplicates; reactive the same, with more loss",
    ),
    Published(
        "PRO-F8",
        "PRO",
        "Moving to neighbors lowers the processing time at every broker",
        "M lowest at B5; Tb highest at B3 and B6, at B5 much lower than under RND",
    ),
    Published(
        "DIS-F3",
        "DIS",
        "Commute, average overhead ratio",
        "standard about 0.8 at 800, rising; logging below; prefetching near 0; home broker far above",
    ),
    Published(
        "DIS-F4",
        "DIS",
        "Commute, overhead ratio in the peak half hour",
        "standard about 2.3 at 800, roughly 3 x its average; home broker over 25",
    ),
    Published(
        "DIS-F5",
        "DIS",
        "Commute, cost over time follows the number of concurrent transfers",
        "only home broker stays high after all have reconnected",
    ),
    Published(
        "DIS-F6",
        "DIS",
        "Random, average overhead ratio",
        "standard about 1.0 at 800; logging under 70% of it and almost flat; prefetching small; "
        "home broker highest",
    ),
    Published(
        "DIS-F7",
        "DIS",
        "Logging falls with interest locality 30/60/90% and reaches prefetching",
        "no other scheme falls",
    ),
    Published(
        "DIS-F8", "DIS", "The size of the log, 800 to 1200, changes logging only marginally", "marginal"
    ),
    Published(
        "DIS-F9",
        "DIS",
        "Pervasive, average overhead ratio",
        "standard, logging, prefetching about equal; home broker highest",
    ),
    Published(
        "DIS-open",
        "DIS",
        "What the paper leaves open: all its sentences in every model that fits",
        "the figures of sections 5.2.2 to 5.2.4 come from one model",
    ),
    Published(
        "DIS-sets",
        "DIS",
        "Prefetching to a set of brokers, and to the wrong one (section 4.1)",
        "a set costs linearly more, far less than a failed prediction; a failed one costs more than none",
    ),
    Published(
        "DIS-links",
        "DIS",
        "Commute over links that have a bandwidth: transfers under way at once, and the latency meanwhile",
        "cost tracks concurrent transfers; up to 10% of the subscribers at once, most between 5:00 and 5:30 pm; "
        "prefetching hides the transfer; latency is left for future work",
    ),
    Published(
        "DIS-share",
        "DIS",
        "Share of subscription migration in unicast traffic",
        "commute <1%, random about 2%, pervasive about 60%",
    ),
    Published(
        "DIS-cover",
        "DIS",
        "Covering and advertisements change the overhead negligibly",
        "negligible in these scenarios",
    ),
    Published(
        "DIS-model",
        "DIS",
        "Eq. 1-5 as a calculator, beside the simulated count",
        "prediction = simulated count",
    ),
    Published(
        "DRIP-F3a",
        "DRIP",
        "Broker coverage (l=4)",
        "grows with m, falls with k, stays below SF",
    ),
    Published("DRIP-F3b", "DRIP", "Delivery delay (l=5)", "falls with m, grows with k, stays below SF"),
    Published(
        "DRIP-boundary",
        "DRIP",
        "Where DRIP delivers faster than epidemic spreading, by subscribers, load and radio",
        "DRIP stays below SF",
    ),
    Published(
        "DRIP-F4",
        "DRIP",
        "Brokers chosen by ability against brokers chosen at random",
        "less delay by ability",
    ),
    Published(
        "DRIP-eq",
        "DRIP",
        "Eq. 1-2: delay of l of m copies, and the number of brokers for a requested delay",
        "(l^2 + 3l)/(4 m lambda)",
    ),
    Published(
        "PRE-jit",
        "PRE",
        "Just-in-time delivery after a handoff",
        "exactly when travel time from the border cell >= route set-up time",
    ),
    Published(
        "PRE-cost",
        "PRE",
        "Virtual consumers only for clients in border cells",
        "cost below pre-handoff at all neighbors, at the same hit rate",
    ),
    Published(
        "PRE-literal",
        "PRE",
        "The algorithms of Fig. 3 as printed, beside ours",
        "no events are duplicated and lost (assumed)",
    ),
    Published(
        "PRE-ping-pong",
        "PRE",
        "Clients that go to and fro across a border",
        "cancelling at once avoids ping-pong",
    ),
    Published(
        "TIME-F7",
        "TIME",
        "ON/OFF queueing centre, analysis against simulation",
        "equal at TON=TOFF=20/40/60, D=0.125, below 3.5 events/s; saturation at 4",
    ),
    Published(
        "TIME-T3",
        "TIME",
        "Response times of three mobile scenarios",
        "metro 116.76 s and 43.7 s; voluntary 28.31 and 18.03 min; degraded 2.26 s; within about 5%",
    ),
    Published(
        "TIME-F9",
        "TIME",
        "Arrival rates that vary by 10-minute bins",
        "analysis within 5% of simulation",
    ),
    Published(
        "TIME-F11/12",
        "TIME",
        "Two metro paths",
        "analysis = simulation on path 1; on path 2 at low rates, else at most about 10% apart",
    ),
    Published(
        "TIME-F12-recorded",
        "TIME",
        "Fig. 12 on recorded connectivity of phones",
        "analysis at most about 10% from simulation",
    ),
    Published(
        "TIME-fit",
        "TIME",
        "Exponential fits of ON and OFF periods from connectivity traces",
        "parameters recovered, CCDFs agree",
    ),
    Published(
        "OURS-model-sim",
        "OURS",
        "The ON/OFF model beside the simulator",
        "delay, waiting events and throughput within 10% wherever the model says that it holds",
    ),
    Published(
        "OURS-model-live",
        "OURS",
        "The ON/OFF model beside live brokers on an idle machine",
        "the same within 20%",
    ),
)
