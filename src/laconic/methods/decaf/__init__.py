"""DECAF: its recipe, its modules, its settings, and the ablations of its paper."""
