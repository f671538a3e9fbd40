"""Tables with alterations."""
