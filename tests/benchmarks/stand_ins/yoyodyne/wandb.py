"""Stand-in for wandb, to which yoyodyne can report, and nothing here does."""

run = None
