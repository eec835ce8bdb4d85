"""Sessions that answer an adaptive stream of queries and pay as they go."""
