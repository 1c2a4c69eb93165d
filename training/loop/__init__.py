"""Parts of the training loop in ``train.py``: batches, schedules, loss terms, checkpoints, run folders."""
