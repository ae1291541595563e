"""Estimates at every beta from one ordering of the ratios, with errors and intervals."""
