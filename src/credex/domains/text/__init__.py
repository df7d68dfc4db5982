"""Texts: words, tokens, sentences or spans of a string, removed or replaced."""

from credex.domains.text.text import Text

__all__ = ["Text"]
