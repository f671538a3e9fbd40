"""Choose among fitted results: arithmetic on arrays, without files and
without torch.
"""
