"""Other libraries for the same task, measured beside our models: `laconic bench MODEL DATA --against all`."""
