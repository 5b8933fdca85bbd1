"""Planned convolutions of models, and networks from models."""
