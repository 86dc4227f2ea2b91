"""The parts of the pytest plugin; tests import ``highwater.pytest_plugin``."""
