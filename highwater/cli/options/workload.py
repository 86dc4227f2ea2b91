"""Options about the topic and its clients, which ``run`` and ``rolling`` share."""

from typing import Annotated

from typer import Option

from highwater.harness.base import limits

AcksOption = Annotated[str, Option("--acks", help="0, 1 or all.")]
UncleanOption = Annotated[
    bool | None,
    Option(
        "--unclean/--clean",
        help="Allow unclean elections, or forbid them; takes no value.  [default: clean]",
        show_default=False,
    ),
]
ConsumersOption = Annotated[
    int, Option("--consumers", help=f"Readers during the run, {limits.CLIENTS.says}.")
]
RateOption = Annotated[str, Option("--rate", help="Records per second in all, or max.")]
RecordBytesOption = Annotated[
    int, Option("--record-bytes", help=f"Bytes of a value, {limits.RECORD_BYTES.says}.")
]
CompressionOption = Annotated[str, Option("--compression", help="none, gzip, snappy, lz4 or zstd.")]
IdempotenceOption = Annotated[bool, Option("--idempotence", help="Idempotent producers.")]
DeliveryTimeoutOption = Annotated[
    str,
    Option(
        "--delivery-timeout",
        help=f"When an unanswered send becomes info: {limits.DELIVERY_S.lasting}.",
    ),
]
KeysOption = Annotated[
    int,
    Option(
        "--keys",
        help=f"Keys of the records, on a compacted topic, {limits.KEYS.says}; 0: none.",
    ),
]
TombstonesOption = Annotated[
    float,
    Option("--tombstones", help=f"Share of keyed records that delete, {limits.ABORTS.says}."),
]
ClientOption = Annotated[
    str | None,
    Option(
        "--client",
        help="Library of the producers: librdkafka, java, Java's of a release (java:3.9.2),"
        " kafka-python or aiokafka.  [default: librdkafka]",
        show_default=False,
    ),
]
ReaderClientOption = Annotated[
    str,
    Option(
        "--reader-client",
        help="Library of the readers, and of the members of a group, named as of --client.",
    ),
]
GroupProtocolOption = Annotated[
    str | None,
    Option(
        "--group-protocol",
        help="Protocol of a group of readers: classic, or consumer (KIP-848, since 4.0)."
        "  [default: classic]",
        show_default=False,
    ),
]
