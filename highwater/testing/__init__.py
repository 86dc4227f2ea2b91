"""What the pytest plugin is made of; ``highwater.pytest_plugin`` is what tests import."""
