"""Accelerate within a budget of memory: python3 accelerate_budget.py"""
import torch, ucudnn.torch
from accelerate import Accelerator
from torch import nn

torch.manual_seed(1)
layers = [nn.Conv2d(3, 16, 3, padding=1)]
for _ in range(4):
    layers += [nn.BatchNorm2d(16), nn.GELU(), nn.Conv2d(16, 16, 3, padding=1)]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
model = torch.compile(model, backend="ucudnn", options={"budget": "2MiB"})  # the line; a GPU needs more
data = torch.utils.data.TensorDataset(torch.randn(20, 3, 32, 32), torch.randint(4, (20,)))
optimizer = torch.optim.AdamW(model.parameters())
accelerator = Accelerator()
loader = torch.utils.data.DataLoader(data, batch_size=8)  # its last batch has 4 images
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        accelerator.backward(loss), optimizer.step(), optimizer.zero_grad()
        print(f"loss {loss.item():.6f}")
