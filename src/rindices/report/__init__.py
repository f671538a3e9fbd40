"""What a study found, for people who would rather look: brain pictures, figures, one
self-contained page.
"""
