"""What is given away, and who gives it."""
