"""Fuzzing by coverage of everything that strangers, clients and damaged files can say to a broker."""
