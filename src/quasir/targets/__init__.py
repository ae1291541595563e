"""Targets P(x) = a(x) b(x): features, factors, products."""
