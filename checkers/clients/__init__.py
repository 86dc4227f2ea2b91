"""Anomalies of the clients' view: what their operations alone show, without any disk.

Kinds and their definitions are those of Jepsen's Kafka workload (``jepsen.tests.kafka``). Every
checker reads a ``checkers.clients.view.View``.
"""
