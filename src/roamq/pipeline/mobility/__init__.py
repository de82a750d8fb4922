"""Measures of how clients move, as functions from data frame to data frame.

They take the pipeline's observations, sojourns or moves and run on any Spark session; `roamq pipeline mobility` prints
them for a dataset of a warehouse (docs/pipeline-api.md).
"""
