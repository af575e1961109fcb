"""DECAF: its recipe, modules, settings, and the ablations of its paper."""
