"""Where a step's saved tensors are: steps within a budget of memory."""
