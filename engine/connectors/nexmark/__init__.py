"""The Nexmark event generator as a source."""
