"""Explain photographs and a digit; ``make pictures`` writes the pictures of docs/images.md.

EfficientNet-Lite0 and the digits' network come from ``realdata/``: fetched, exported and trained
on first use, which takes some minutes.
"""

from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot as plt

import credex as cx
from realdata.cnn import cnn
from realdata.imagenet import class_names, onnx_path
from realdata.mnist import digits
from realdata.photographs import photograph

mpl.use("Agg")  # write files, open no window
torch.set_num_threads(1)
OUT = Path(__file__).resolve().parent.parent / "docs" / "images"

# An ONNX file needs no wrapping; what its input looks like is said here.
classifier = cx.from_onnx(
    onnx_path(),
    prepare=lambda pixels: (pixels.transpose(0, 3, 1, 2).astype("float32") - 127) / 128,
    activation="softmax",
    classes=class_names(),
    threads=1,
    batch_size=8,
)

# A cup of coffee: heat map, and the regions that count most.
lime = cx.BayesLIME(classifier, cx.Image(segments=cx.Slic(20), fill="mean"), target="espresso")
coffee = lime.explain(photograph("coffee").pixels, queries=300)
print(coffee)
coffee.plot.overlay().figure.savefig(OUT / "coffee-overlay.png", dpi=90)
coffee.plot.regions(4).figure.savefig(OUT / "coffee-regions.png", dpi=90)

# Two flamingos, too few queries: the animation shows what is not certain yet.
shap = cx.BayesSHAP(classifier, cx.Image(segments=cx.Slic(12), fill=cx.Blur(12)), target="flamingo")
flamingo = shap.explain(photograph("flamingo").pixels, queries=40)
print(flamingo)
flamingo.plot.posterior_gif(OUT / "flamingo-posterior.gif", draws=6, seconds=4)
certain = shap.refine(flamingo, queries=200, posterior="gp", sampler="paired")
figure, axes = plt.subplots(1, 2, figsize=(9, 4.9), layout="constrained")
for ax, e in zip(axes, (flamingo, certain), strict=True):
    e.plot.overlay(ax=ax)
figure.draw_without_rendering()  # images in a constrained layout need a second pass
figure.savefig(OUT / "flamingo-overlay.png", dpi=90)

# A digit and a torch module.
network = cx.from_torch(cnn(), activation="softmax", prepare=lambda x: x[:, None])
image = cx.Image(segments=cx.Slic(20), fill=0.5)  # grey: black on black would hide nothing
digit = cx.BayesSHAP(network, image, target=7).explain(digits("test").images[0], width=0.1)
print(digit)
digit.plot.overlay().figure.savefig(OUT / "digit-overlay.png", dpi=90)
