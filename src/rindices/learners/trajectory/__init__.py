"""Disease patterns as curves: each region changes at its own stage of the severity."""
