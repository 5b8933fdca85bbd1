"""Unlike memory on each rank: torchrun --nproc-per-node 2 share_budget.py"""
import os, torch, ucudnn.torch
from torch import nn

rank, gpu = int(os.environ["LOCAL_RANK"]), torch.cuda.is_available()
torch.distributed.init_process_group("nccl" if gpu else "gloo")
device = torch.device("cuda", rank) if gpu else torch.device("cpu")
layers = [nn.Conv2d(3, 16, 3, padding=1)]
for _ in range(4):
    layers += [nn.BatchNorm2d(16), nn.GELU(), nn.Conv2d(16, 16, 3, padding=1)]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(128, 3, 32, 32), torch.randint(4, (128,)))
def loss(model, x, y):
    return nn.functional.cross_entropy(model(x.to(device)), y.to(device))
shares = ucudnn.torch.share(
    32, model=model, loss=lambda model, images: loss(model, *data[:images]),
    optimizer=optimizer, device=device, kind=("large", "small")[rank],
    budget={"large": "16MiB", "small": "2MiB"})  # a GPU needs more
print(*shares.reasons if rank == 0 else [], sep="\n")
ddp = shares.attach(nn.parallel.DistributedDataParallel(shares.model), loss="images")
for images, labels in shares.loader(data):
    optimizer.zero_grad()
    loss(ddp, images, labels).backward(), optimizer.step()
