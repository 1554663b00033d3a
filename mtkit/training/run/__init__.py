"""What a run keeps and says: checkpoints, journal, validation, the finished model, its ranks."""
