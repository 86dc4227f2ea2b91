"""Highwater: which acknowledged records can this Kafka lose, and why.

What ``__all__`` names is the public API: stable, typed, and documented in docs/api.md. Everything
else in this package may change without notice. The rest is the command ``highwater``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__ = "0.2.0"

if TYPE_CHECKING:
    from highwater.api import JudgedRun as JudgedRun
    from highwater.api import StoredRun as StoredRun
    from highwater.api import check as check
    from highwater.api import load as load
    from highwater.api import perform as perform
    from highwater.checkers.core.anomaly import anomalies as anomalies
    from highwater.checkers.core.anomaly import operation_step as operation_step
    from highwater.checkers.core.anomaly_kinds import Kind as Kind
    from highwater.checkers.core.anomaly_kinds import Severity as Severity
    from highwater.checkers.core.checker import checker as checker
    from highwater.checkers.run_tables import Tables as Tables
    from highwater.clusters.core.interfaces import Broker as Broker
    from highwater.clusters.core.interfaces import Cluster as Cluster
    from highwater.harness.base.errors import HarnessError as HarnessError
    from highwater.harness.base.errors import HighwaterError as HighwaterError
    from highwater.harness.base.errors import StoreError as StoreError
    from highwater.harness.base.errors import UsageError as UsageError
    from highwater.harness.base.spark_options import SparkOptions as SparkOptions
    from highwater.harness.runs.faults.steps import FaultStep as FaultStep
    from highwater.harness.runs.faults.steps import overlap as overlap
    from highwater.harness.runs.faults.steps import sequence as sequence
    from highwater.harness.runs.faults.steps import stagger as stagger
    from highwater.harness.runs.plan import Plan as Plan
    from highwater.harness.runs.plan import Topic as Topic
    from highwater.harness.runs.plan import Workload as Workload
    from highwater.harness.runs.store import Run as Run
    from highwater.harness.runs.store import Store as Store
    from highwater.harness.runs.verdict import Anomaly as Anomaly
    from highwater.harness.runs.verdict import Ledger as Ledger
    from highwater.harness.runs.verdict import Verdict as Verdict
    from highwater.nemesis.faults.registry import FaultTarget as FaultTarget
    from highwater.nemesis.faults.registry import NothingDoneError as NothingDoneError
    from highwater.nemesis.faults.registry import aimed as aimed
    from highwater.nemesis.faults.registry import fault as fault
    from highwater.testing.kafka_run import KafkaRun as KafkaRun
    from highwater.testing.parametrize import Case as Case
    from highwater.testing.results import CannotJudge as CannotJudge
    from highwater.testing.results import PromiseBroken as PromiseBroken
    from highwater.testing.results import Result as Result
    from highwater.testing.results import Unexplained as Unexplained

_PLACES: Final = {
    "api": ("JudgedRun", "StoredRun", "check", "load", "perform"),
    "checkers.core.anomaly": ("anomalies", "operation_step"),
    "checkers.core.anomaly_kinds": ("Kind", "Severity"),
    "checkers.core.checker": ("checker",),
    "checkers.run_tables": ("Tables",),
    "clusters.core.interfaces": ("Broker", "Cluster"),
    "harness.base.errors": ("HarnessError", "HighwaterError", "StoreError", "UsageError"),
    "harness.base.spark_options": ("SparkOptions",),
    "harness.runs.faults.steps": ("FaultStep", "overlap", "sequence", "stagger"),
    "harness.runs.plan": ("Plan", "Topic", "Workload"),
    "harness.runs.store": ("Run", "Store"),
    "harness.runs.verdict": ("Anomaly", "Ledger", "Verdict"),
    "nemesis.faults.registry": ("FaultTarget", "NothingDoneError", "aimed", "fault"),
    "testing.kafka_run": ("KafkaRun",),
    "testing.parametrize": ("Case",),
    "testing.results": ("CannotJudge", "PromiseBroken", "Result", "Unexplained"),
}
_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Anomaly",
    "Broker",
    "CannotJudge",
    "Case",
    "Cluster",
    "FaultStep",
    "FaultTarget",
    "HarnessError",
    "HighwaterError",
    "JudgedRun",
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
    """Import what is asked for, and no more: much of it brings Spark or Kafka's clients along."""
    if name not in _MODULES:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    return getattr(import_module(f"highwater.{_MODULES[name]}"), name)
