"""Batch normalizations of models, fused with what follows them."""
