"""What several task managers gain and cost on one machine."""
