"""Measures tidegate beside other data movers, on one machine, in two network namespaces."""
