"""Stage 2: text pairs to batches of subword ids."""
