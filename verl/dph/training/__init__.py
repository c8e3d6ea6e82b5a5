"""verl's trainers with rehearsal: losses, workers, batches, checkpoints."""
