"""Training: the loop, its step, optimisers, losses, tasks, and runs that can be resumed."""
