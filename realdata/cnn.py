"""A small convolutional network for MNIST. Train it with ``python -m realdata.cnn``.

Two convolutions and two dense layers, five epochs of Adam on one core. The weights are kept beside
the fetched packages; `cnn` trains them when they are missing. torch is imported only here.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from realdata.fetch import kept
from realdata.mnist import digits

__all__ = ["accuracy", "cnn"]

WEIGHTS = "mnist-cnn-1.pt"
EPOCHS, BATCH, SEED = 5, 128, 0


def cnn() -> Any:
    """Return the trained network: ``(n, 1, 28, 28)`` floats in 0…1 to ``(n, 10)`` logits."""
    import torch

    path = kept(WEIGHTS)
    if not path.exists():
        train()
    module = _network()
    module.load_state_dict(torch.load(path, weights_only=True))
    return module.eval()


def _network() -> Any:
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(128, 10),
    )


def train() -> None:
    """Train the network and keep its weights."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        module, data = _network(), digits("train")
        x = torch.from_numpy(data.images)[:, None]
        y = torch.from_numpy(data.labels)
        optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
        steps = EPOCHS * -(-len(x) // BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        clock = time.perf_counter()
        for epoch in range(EPOCHS):
            module.train()
            for batch in torch.randperm(len(x)).split(BATCH):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
                optimiser.step()
                schedule.step()
            print(
                f"epoch {epoch + 1} of {EPOCHS}: {accuracy(module):.2%} of the test digits, "
                f"{time.perf_counter() - clock:.0f} s",
                flush=True,
            )
        torch.save(module.state_dict(), kept(WEIGHTS))


def accuracy(module: Any) -> float:
    """Return the share of the 10,000 test digits that the network names rightly."""
    import torch

    data = digits("test")
    module.eval()
    with torch.no_grad():
        x = torch.from_numpy(data.images)[:, None]
        said = torch.cat([module(part).argmax(dim=1) for part in x.split(500)])
    return float(np.mean(said.numpy() == data.labels))


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    train()
