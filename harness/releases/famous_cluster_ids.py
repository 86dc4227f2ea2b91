"""Cluster ids that stand in quickstarts and compose files: equal ones prove nothing.

A cluster's id is drawn by ``kafka-storage random-uuid``, or by the first broker in ZooKeeper
(KIP-78), and would name it alone. A cluster that was formatted with the id of an example shares it
with everybody who followed the same example.
"""

from typing import Final

FAMOUS_CLUSTER_IDS: Final = frozenset(
    {
        "4L6g3nShT-eMCtK--X86sw",  # Kafka's own compose files
        "5L6g3nShT-eMCtK--X86sw",  # the default of the image apache/kafka
        "EP6hyiddQNW5FPrAvR9kWw",  # images that format with --ignore-formatted
        "MkU3OEVBNTcwNTJENDM2Qg",  # the next one, spelt as base64 ends it
        "MkU3OEVBNTcwNTJENDM2Qk",  # Confluent's compose files
        "abcdefghijklmnopqrstuv",  # Bitnami's pages
        "q1Sh-9_ISia_zwGINzRvyQ",  # Confluent's pages on KRaft, and Testcontainers' examples
        "r4zt_wrqTRuT7W2NJsB_GA",  # Bitnami's issues and posts
    }
)
