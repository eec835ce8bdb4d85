"""Settings that every test shares."""

from hypothesis import settings

# Examples are the same at every run, and a slow shared machine is no failure.
settings.register_profile("qrelease", deadline=None, derandomize=True)
settings.load_profile("qrelease")
