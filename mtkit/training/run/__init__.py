"""What a run keeps and stands on: checkpoints, metrics, memory, its ranks."""
