"""The report of a run as an HTML page."""
