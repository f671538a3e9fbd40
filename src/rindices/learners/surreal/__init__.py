"""Surreal-GAN: networks, losses, step and training loop, in torch."""
