"""Model files and checkpoints with alterations."""
