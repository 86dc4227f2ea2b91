"""Cluster ids from quickstarts and compose files, which different clusters may have.

``kafka-storage random-uuid``, or the first broker on ZooKeeper (KIP-78), chooses a cluster's id at
random, so it is normally unique. But all clusters that were formatted with the id of an example
have the same id.
"""

from typing import Final

FAMOUS_CLUSTER_IDS: Final = frozenset(
    {
        "4L6g3nShT-eMCtK--X86sw",  # Kafka's own compose files
        "5L6g3nShT-eMCtK--X86sw",  # the default of the image apache/kafka
        "EP6hyiddQNW5FPrAvR9kWw",  # images that format with --ignore-formatted
        "MkU3OEVBNTcwNTJENDM2Qg",  # the next id with its last letter in canonical base64
        "MkU3OEVBNTcwNTJENDM2Qk",  # Confluent's compose files
        "abcdefghijklmnopqrstuv",  # Bitnami's pages
        "q1Sh-9_ISia_zwGINzRvyQ",  # Confluent's pages on KRaft, and Testcontainers' examples
        "r4zt_wrqTRuT7W2NJsB_GA",  # Bitnami's issues and posts
    }
)
