"""Tables: rows of a numpy array, a pandas frame or a polars frame, of any dtype."""

from credex.domains.tabular.tabular import Tabular

__all__ = ["Tabular"]
