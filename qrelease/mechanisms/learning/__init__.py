"""Learning what a schema leaves open from the private records: bins of numbers, and categories."""
