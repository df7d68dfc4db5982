"""Images: pictures, whose features are regions that are kept or painted over."""
