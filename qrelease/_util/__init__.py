"""Work on all cores, and free memory: what every room uses and what knows nothing of privacy."""
