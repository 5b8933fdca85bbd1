"""Training steps captured once, and replayed as CUDA graphs."""
