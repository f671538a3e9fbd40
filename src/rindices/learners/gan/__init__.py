"""Surreal-GAN: networks, losses and training of the paper.

They need torch, which the extra ``gan`` brings.
"""
