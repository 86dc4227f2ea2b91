"""Says what a Spark Connect server of another version says: ``with old_server() as url``."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import grpc
import pyspark.sql.connect.proto as messages
import pyspark.sql.connect.proto.base_pb2_grpc as services

from tests.spark.beds import LOOPBACK

VERSION: Final = "3.5.7"


class _Server(services.SparkConnectServiceServicer):
    def Config(  # noqa: N802 - as gRPC calls it
        self, request: messages.ConfigRequest, _: object
    ) -> messages.ConfigResponse:
        return messages.ConfigResponse(session_id=request.session_id)

    def AnalyzePlan(  # noqa: N802 - for the same reason
        self, request: messages.AnalyzePlanRequest, _: object
    ) -> messages.AnalyzePlanResponse:
        version = messages.AnalyzePlanResponse.SparkVersion(version=VERSION)
        return messages.AnalyzePlanResponse(session_id=request.session_id, spark_version=version)


@contextmanager
def old_server() -> Iterator[str]:
    """Run the server on loopback; its URL."""
    server = grpc.server(ThreadPoolExecutor(2))
    add: Callable[..., None] = services.add_SparkConnectServiceServicer_to_server
    add(_Server(), server)
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    server.start()
    try:
        yield f"sc://{LOOPBACK}:{port}"
    finally:
        server.stop(None)
