"""Thousands of real crashes: ``make chaos`` and the chaos tests."""
