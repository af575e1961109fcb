"""Other libraries for the same task, measured beside our models: `laconic bench MODEL DATA --against all`.

Nothing else needs any of them, and none is ever imported into our own process (process.py).
"""
