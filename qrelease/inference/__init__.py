"""From noisy measurements to a synopsis; the private table is never in reach."""
