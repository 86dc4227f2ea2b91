"""Cluster ids from quickstarts and compose files, which several clusters may have.

A cluster's id is normally random and unique: ``kafka-storage random-uuid`` chooses it, or on
ZooKeeper the first broker (KIP-78). But a user who formats a cluster with an example's id gets the
same id as every other user of the example.
"""

from typing import Final

FAMOUS_CLUSTER_IDS: Final = frozenset(
    {
        "4L6g3nShT-eMCtK--X86sw",  # Kafka's own compose files
        "5L6g3nShT-eMCtK--X86sw",  # the default of the image apache/kafka
        "EP6hyiddQNW5FPrAvR9kWw",  # images that format with --ignore-formatted
        "MkU3OEVBNTcwNTJENDM2Qg",  # the id below, with its last letter in canonical base64
        "MkU3OEVBNTcwNTJENDM2Qk",  # Confluent's compose files
        "abcdefghijklmnopqrstuv",  # Bitnami's pages
        "q1Sh-9_ISia_zwGINzRvyQ",  # Confluent's pages on KRaft, and Testcontainers' examples
        "r4zt_wrqTRuT7W2NJsB_GA",  # Bitnami's issues and posts
    }
)
