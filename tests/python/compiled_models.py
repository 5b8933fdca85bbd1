"""Small models whose training steps the tests of ucudnn.torch.compile plan."""

import torch
from torch import nn
from torch.nn import functional


class Cnn(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        layers = [nn.Conv2d(3, 16, 3, padding=1)]
        for _ in range(5):
            layers += [nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)
        )

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.body(x)), y)


class Broken(Cnn):
    """Its forward pass breaks into two graphs."""

    def forward(self, x, y):
        x = self.body(x)
        torch._dynamo.graph_break()
        return functional.cross_entropy(self.head(x), y)


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, causal):
        images, length, width = x.shape
        heads = self.inputs(self.before(x)).view(images, length, 3, 4, width // 4)
        attended = functional.scaled_dot_product_attention(
            *heads.permute(2, 0, 3, 1, 4), is_causal=causal
        )
        attended = attended.transpose(1, 2).reshape(images, length, width)
        x = x + self.dropout(self.output(attended))
        wide = functional.gelu(self.wide(self.between(x)))
        return x + self.dropout(self.narrow(wide))


class Gpt(nn.Module):
    def __init__(self, dropout=0.1, width=32, layers=4, words=50):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(layers))
        self.normalization = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, causal=True)
        scores = self.head(self.normalization(x))
        return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


class Vit(nn.Module):
    def __init__(self, width=32, layers=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.ModuleList(Block(width, 0.0) for _ in range(layers))
        self.head = nn.Linear(width, 4)

    def forward(self, x, y):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x, causal=False)
        return functional.cross_entropy(self.head(x.mean(1)), y)


class Unet(nn.Module):
    def __init__(self, width=8):
        super().__init__()

        def layers(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
                nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
            )  # fmt: skip

        self.first = layers(3, width)
        self.second = layers(width, 2 * width)
        self.lowest = layers(2 * width, 2 * width)
        self.up = layers(4 * width, width)
        self.last = layers(2 * width, width)
        self.output = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.second(functional.max_pool2d(first, 2))
        low = self.lowest(functional.max_pool2d(second, 2))
        up = self.up(torch.cat([functional.interpolate(low, scale_factor=2), second], 1))
        up = self.last(torch.cat([functional.interpolate(up, scale_factor=2), first], 1))
        return functional.mse_loss(self.output(up), x)


def images(count=8):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 3, 16, 16, generator=generator)
    return x, torch.randint(0, 4, (count,), generator=generator)


def tokens(count=4):
    generator = torch.Generator().manual_seed(5)
    return (torch.randint(0, 50, (count, 32), generator=generator),)


def channels_last():
    x, y = images()
    return x.contiguous(memory_format=torch.channels_last), y


# By name: the class and its inputs.
MODELS = {
    "cnn": (Cnn, images),
    "vit": (Vit, images),
    "gpt": (Gpt, tokens),
    "unet": (Unet, lambda: images()[:1]),
}
# Inductor saves other tensors than a plan where it changes their layout, as it does with
# convolutions' weights that are not channels last.
INDUCTOR = {
    "cnn": (lambda: Cnn().to(memory_format=torch.channels_last), channels_last),
    "gpt": MODELS["gpt"],
}


class Training:
    """Steps of a model; `compiled` makes what is called of it."""

    def __init__(self, make, compiled=lambda model: model):
        torch.manual_seed(3)
        self.model = make()
        self.compiled = compiled(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        torch.manual_seed(4)  # of dropout

    def __call__(self, *inputs):
        self.optimizer.zero_grad()
        loss = self.compiled(*inputs)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def gradients(self):
        return [parameter.grad.clone() for parameter in self.model.parameters()]
