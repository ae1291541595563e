"""Showing results: tables and figures."""
