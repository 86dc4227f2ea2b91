"""Highwater: which acknowledged records can this Kafka lose, and why?

The names in ``__all__`` are the public API: stable, typed, and documented in docs/api.md. Other
names are internal, and may change without notice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__ = "0.2.0"

if TYPE_CHECKING:
    from highwater.api import JudgedRun, StoredRun, check, load, perform
    from highwater.checkers.core.anomaly import anomalies, operation_step
    from highwater.checkers.core.anomaly_kinds import Kind, Severity
    from highwater.checkers.core.checker import checker
    from highwater.checkers.run_tables import Tables
    from highwater.clusters.core.interfaces import Broker, Cluster
    from highwater.harness.base.errors import HarnessError, HighwaterError, StoreError, UsageError
    from highwater.harness.base.spark_options import SparkOptions
    from highwater.harness.runs.plan import Plan, Topic, Workload
    from highwater.harness.runs.steps import FaultStep, overlap, sequence, stagger
    from highwater.harness.runs.store import Run, Store
    from highwater.harness.runs.verdict import Anomaly, Ledger, Verdict
    from highwater.nemesis.faults.registry import FaultTarget, NothingDoneError, aimed, fault
    from highwater.testing.kafka_app import App, KafkaApp
    from highwater.testing.kafka_run import KafkaRun
    from highwater.testing.parametrize import Case
    from highwater.testing.results import CannotJudge, PromiseBroken, Result, Unexplained

_PLACES: Final = {
    "api": ("JudgedRun", "StoredRun", "check", "load", "perform"),
    "checkers.core.anomaly": ("anomalies", "operation_step"),
    "checkers.core.anomaly_kinds": ("Kind", "Severity"),
    "checkers.core.checker": ("checker",),
    "checkers.run_tables": ("Tables",),
    "clusters.core.interfaces": ("Broker", "Cluster"),
    "harness.base.errors": ("HarnessError", "HighwaterError", "StoreError", "UsageError"),
    "harness.base.spark_options": ("SparkOptions",),
    "harness.runs.steps": ("FaultStep", "overlap", "sequence", "stagger"),
    "harness.runs.plan": ("Plan", "Topic", "Workload"),
    "harness.runs.store": ("Run", "Store"),
    "harness.runs.verdict": ("Anomaly", "Ledger", "Verdict"),
    "nemesis.faults.registry": ("FaultTarget", "NothingDoneError", "aimed", "fault"),
    "testing.kafka_app": ("App", "KafkaApp"),
    "testing.kafka_run": ("KafkaRun",),
    "testing.parametrize": ("Case",),
    "testing.results": ("CannotJudge", "PromiseBroken", "Result", "Unexplained"),
}
_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Anomaly",
    "App",
    "Broker",
    "CannotJudge",
    "Case",
    "Cluster",
    "FaultStep",
    "FaultTarget",
    "HarnessError",
    "HighwaterError",
    "JudgedRun",
    "KafkaApp",
    "KafkaRun",
    "Kind",
    "Ledger",
    "NothingDoneError",
    "Plan",
    "PromiseBroken",
    "Result",
    "Run",
    "Severity",
    "SparkOptions",
    "Store",
    "StoreError",
    "StoredRun",
    "Tables",
    "Topic",
    "Unexplained",
    "UsageError",
    "Verdict",
    "Workload",
    "__version__",
    "aimed",
    "anomalies",
    "check",
    "checker",
    "fault",
    "load",
    "operation_step",
    "overlap",
    "perform",
    "sequence",
    "stagger",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use: the import of Spark or Kafka clients is slow."""
    if name not in _MODULES:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    return getattr(import_module(f"highwater.{_MODULES[name]}"), name)
