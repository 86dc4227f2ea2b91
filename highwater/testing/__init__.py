"""The parts of the pytest plugin, which ``highwater.pytest_plugin`` uses."""
