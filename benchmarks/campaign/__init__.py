"""A campaign against laconic: kills, damaged and hostile folders, hostile data files, and a service under load.

`make campaign` runs all of it; benchmarks/results/campaign.json has what was found.
"""
