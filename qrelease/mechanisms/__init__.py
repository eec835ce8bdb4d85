"""One file a mechanism."""
