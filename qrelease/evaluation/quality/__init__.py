"""How good a synthetic table is, as those who approve releases know it; and one figure of that which is private."""
