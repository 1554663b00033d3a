"""What studies a model or a machine: attention, speed, comparisons, drawings."""
