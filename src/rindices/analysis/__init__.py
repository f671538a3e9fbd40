"""What R-indices mean: statistics as tidy tables, pure functions of frames; nothing is printed or saved here."""
