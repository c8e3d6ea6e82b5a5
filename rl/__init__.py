"""Programs that stand beside the trainer and need neither torch nor verl."""
