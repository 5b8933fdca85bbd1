"""Mini-batches shared unevenly among unlike GPUs."""
