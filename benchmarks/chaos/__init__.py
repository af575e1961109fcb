"""What the service must survive: too much load, hostile and slow clients, being stopped, models swapped under it.

python -m benchmarks.chaos [load hostile slow stop swap equal soak] [--model MODEL] [--seconds 10] ...
"""
