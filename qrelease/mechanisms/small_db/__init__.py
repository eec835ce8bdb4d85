"""Mechanisms that draw one synopsis out of a finite list by the exponential mechanism."""
