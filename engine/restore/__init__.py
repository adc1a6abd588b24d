"""From a checkpoint to the state of a plan that may have changed."""
