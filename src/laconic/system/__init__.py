"""The machine and its files: cores, memory, and writing so that a crash leaves the old file or the new one."""
