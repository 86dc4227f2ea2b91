"""Reading histories of ``jepsen.tests.kafka``, and judging them with Highwater's checkers."""
