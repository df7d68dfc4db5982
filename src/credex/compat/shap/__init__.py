"""shap's ``KernelExplainer``, computed by BayesSHAP.

Every other name, such as ``kmeans`` or ``plots``, is that of the installed shap.
"""

from typing import Any

from credex.compat.shap.kernel import KernelExplainer

__all__ = ["KernelExplainer"]


def __getattr__(name: str) -> Any:
    """Return anything else of shap, such as `kmeans`, `plots` or `summary_plot`."""
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        import shap
    except ImportError:  # an AttributeError, so that hasattr and getattr with a default work
        msg = f"{name} is shap's own, which is not installed: pip install 'credex[shap]'"
        raise AttributeError(msg) from None
    return getattr(shap, name)
