"""DRIP and its epidemic twin SF: publish/subscribe where the brokers are mobile nodes themselves ([DRIP]).

`node` and `broker` are sans-IO and read like the paper; `network` is their shell in virtual time; `experiment`
runs a whole setting from one seed.
"""
