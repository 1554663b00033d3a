"""Which sentences an update is made from, as tensors."""
