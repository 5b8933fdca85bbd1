"""ResNet-50 on unlike GPUs: torchrun --nproc-per-node 2 uneven_resnet50.py"""
import os, torch, torchvision, ucudnn.torch

torch.distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step(model, x, y):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
x, y = torch.randn(256, 3, 224, 224).cuda(), torch.randint(9, (256,)).cuda()
shares = ucudnn.torch.share(256, step=lambda b: step(model, x[:b], y[:b]))
ddp = shares.attach(torch.nn.parallel.DistributedDataParallel(model))
tensor = torchvision.transforms.ToTensor()
for images, labels in shares.loader(torchvision.datasets.FakeData(1280, transform=tensor)):
    step(ddp, images.cuda(), labels.cuda())
