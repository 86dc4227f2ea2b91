"""What the pytest plugin is made of; ``harness.pytest_plugin`` is what pytest and tests import."""
