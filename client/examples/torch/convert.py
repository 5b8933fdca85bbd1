"""A network whose convolutions run by plan where that is faster: python3 convert.py"""
import torch, ucudnn.torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cudnn.benchmark = True  # PyTorch's fastest, to compare with
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 3, 32, 32).to(device), torch.randint(10, (16,)).to(device)
ucudnn.torch.convert(model, x, workspace_limit="64MiB")  # prints each layer's times
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward(), optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
