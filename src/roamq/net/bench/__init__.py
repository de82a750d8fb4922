"""Load for live brokers, and what it measures: throughput beside other brokers, and clients that roam.

Everything speaks MQTT over real sockets to broker processes; nothing in here looks into a broker.
"""
