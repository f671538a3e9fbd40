"""Engines that train the member sets of a plan. All give equal bytes, because the plan decides the sets."""
