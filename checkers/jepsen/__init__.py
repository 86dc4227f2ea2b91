"""Histories of ``jepsen.tests.kafka``, read and judged by our checkers."""
