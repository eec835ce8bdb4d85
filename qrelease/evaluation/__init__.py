"""Judging mechanisms: plans, errors against the truth, audits, attacks; what sees the truth is the holder's alone."""
