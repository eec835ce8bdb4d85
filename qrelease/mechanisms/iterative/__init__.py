"""Mechanisms that select a query, measure it and update a hypothesis, in turns."""
