"""ucudnn.torch.split: the first layers of a model computed in parts of the image."""
