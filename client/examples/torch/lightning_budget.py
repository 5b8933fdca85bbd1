"""Lightning within a budget of memory: python3 lightning_budget.py"""
import lightning, torch, ucudnn.torch.lightning
from torch import nn

class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 16, 3, padding=1)]
        for _ in range(4):
            layers += [nn.BatchNorm2d(16), nn.GELU(), nn.Conv2d(16, 16, 3, padding=1)]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
    def training_step(self, batch, number):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss
    def on_train_batch_end(self, outputs, batch, number):
        print(f"loss {outputs['loss'].item():.6f}")
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

lightning.seed_everything(1, verbose=False)
data = torch.utils.data.TensorDataset(torch.randn(20, 3, 32, 32), torch.randint(4, (20,)))
callbacks = []
callbacks.append(ucudnn.torch.lightning.WithinBudget("2MiB"))  # the line; a GPU needs more
trainer = lightning.Trainer(max_epochs=2, callbacks=callbacks, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=8))
