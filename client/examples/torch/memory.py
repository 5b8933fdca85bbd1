"""A network that trains within a budget of memory: python3 memory.py [BUDGET]"""
import sys, torch, ucudnn, ucudnn.torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
layers = [nn.Conv2d(3, 16, 3, padding=1)]
for _ in range(6):
    layers += [nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 16, 3, padding=1)]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 3, 64, 64).to(device), torch.randint(10, (16,)).to(device)
budget = sys.argv[1] if sys.argv[1:] else "48MiB"
for number in range(10):
    try:
        with ucudnn.torch.memory(budget=budget) as plan:  # prints the third step's plan
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward(), optimizer.step()
    except ucudnn.NoPlan as error:  # on a GPU weights and cuDNN's workspace count, too
        budget = error.least
    print(f"loss {loss.item():.4f}")
