"""Training: the loop, a step of it, optimisers, losses, tasks, and runs that survive a kill."""
