"""Texts: words, tokens, sentences or spans of a string, removed or replaced."""
