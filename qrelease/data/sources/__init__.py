"""What records are read from, one kind a file: CSV, Parquet, data frames; and how values become codes."""
