"""Compare models, sweep a setting, measure latency, draw plots, and run other libraries beside our models."""
