"""What a schema leaves open, learned from the records: the bins of numbers, and categories that nobody listed."""
