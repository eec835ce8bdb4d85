"""Exact random draws, their laws, and what a privacy cost buys."""
