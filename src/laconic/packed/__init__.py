"""Packed models: read and write their folder, and answer from it on a CPU without torch."""
