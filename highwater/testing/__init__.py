"""The parts of the pytest plugin; tests import what they need from ``highwater``."""
