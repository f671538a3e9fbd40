"""Engines: who trains the member sets of a plan. The plan decides the sets, so that all engines give equal bytes."""
