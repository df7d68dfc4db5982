"""lime's and shap's explainers, computed by credex: change the import, keep the code.

``credex.compat.lime`` has `LimeTabularExplainer`, `LimeTextExplainer` and `LimeImageExplainer`,
``credex.compat.shap`` has `KernelExplainer`. They take the arguments of the originals, answer the
same question about the model, and their results have the same shapes; what they compute has
intervals. An argument that credex has no use for gives a warning or an error that says what
happens instead.
"""
