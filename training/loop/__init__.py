"""Parts of the training loop in ``train.py``: batches, schedules, checkpoints, run folders."""
