"""The page of a release."""
