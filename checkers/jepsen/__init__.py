"""Read histories of ``jepsen.tests.kafka``, and judge them with Highwater's checkers."""
