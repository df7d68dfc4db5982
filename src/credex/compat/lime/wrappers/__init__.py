"""lime's wrappers."""
