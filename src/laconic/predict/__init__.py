"""Answer texts with label names and scores, from a model folder or from a packed one, and explain the answers."""
