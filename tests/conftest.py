"""Hypothesis tries the same examples each time: a red build is never a matter of luck."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")
