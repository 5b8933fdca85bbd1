"""ucudnn.torch.compile: torch.compile within a budget of memory."""
