"""Sampling from verl's rollout engines, for pre-sampling and evaluation."""
