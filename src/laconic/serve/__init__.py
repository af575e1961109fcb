"""The HTTP service: a packed model behind limits on size, time and load."""
