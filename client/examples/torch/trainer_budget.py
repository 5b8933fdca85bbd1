"""transformers' Trainer within a budget of memory: python3 trainer_budget.py"""
import torch, ucudnn.torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(1)
config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2,
                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
model = GPT2LMHeadModel(config)
model.compile(backend="ucudnn", options={"budget": "512KiB"})  # the line; a GPU needs more
texts = [torch.randint(64, (32,)) for _ in range(20)]
data = [{"input_ids": text, "labels": text} for text in texts]
arguments = TrainingArguments("trained", num_train_epochs=2, report_to="none", save_strategy="no",
                              logging_steps=1, per_device_train_batch_size=8, eval_strategy="epoch")
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:8])
trainer.train()
for entry in trainer.state.log_history:
    print(*(f"{name} {entry[name]:.6f}" for name in ("loss", "eval_loss") if name in entry))
