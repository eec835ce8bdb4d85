"""Statistics of a private table: means, quantiles, selections, each run by `Curator.estimate` for one charge."""
