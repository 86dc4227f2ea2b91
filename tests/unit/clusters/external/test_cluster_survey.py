"""Facts are read in few requests, however many topics there are, and refusals are named."""

import socket
import time
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse, DescribeQuorumResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from highwater.clusters.external.cluster_survey import ClusterSurvey
from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.releases.cluster_facts import ClusterFacts
from tests.support.fake_broker import FakeBroker, Reply, fake_broker

TOPIC: Any = MetadataResponse.MetadataResponseTopic
Message = Any  # kafka-python creates these classes at run time
NEWEST = {1: 18, 3: 13, 18: 4, 32: 4, 55: 2}
_METADATA, _API_VERSIONS, _CONFIGS, _QUORUM = 3, 18, 32, 55


def versions(request: Message) -> Message:
    feature: Any = ApiVersionsResponse.SupportedFeatureKey
    api: Any = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        version=request.API_VERSION,
        error_code=0,
        api_keys=[api(api_key=key, min_version=0, max_version=top) for key, top in NEWEST.items()],
        supported_features=[feature(name="metadata.version", min_version=7, max_version=33)],
        finalized_features=[],
    )


def configs(request: Message, refused: str = "") -> Message:
    result: Any = DescribeConfigsResponse.DescribeConfigsResult
    return DescribeConfigsResponse(
        version=request.API_VERSION,
        results=[
            result(
                error_code=29 if asked.resource_name == refused else 0,
                error_message="no",
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[
                    result.DescribeConfigsResourceResult(
                        name=name, value="1", read_only=False, is_sensitive=False
                    )
                    for name in asked.configuration_keys
                ],
            )
            for asked in request.resources
        ],
    )


def quorum(request: Message) -> Message:
    return DescribeQuorumResponse(version=request.API_VERSION, error_code=31, topics=[])


def metadata(topics: int, partitions: int, port: list[int]) -> Reply:
    broker: Any = MetadataResponse.MetadataResponseBroker

    def reply(request: Message) -> Message:
        return MetadataResponse(
            version=request.API_VERSION,
            brokers=[broker(node_id=1, host="127.0.0.1", port=port[0], rack="r1")],
            cluster_id="c",
            controller_id=1,
            topics=[
                TOPIC(
                    error_code=0,
                    name=f"t{number}",
                    is_internal=False,
                    partitions=[
                        TOPIC.MetadataResponsePartition(
                            error_code=0,
                            partition_index=index,
                            leader_id=1,
                            replica_nodes=[1, 2, 3],
                            isr_nodes=[1, 2, 3],
                        )
                        for index in range(partitions)
                    ],
                )
                for number in range(topics)
            ],
        )

    return reply


def survey(
    topics: int, partitions: int, *, refused: str = "", pattern: str = "*"
) -> tuple[ClusterFacts, FakeBroker]:
    port: list[int] = []
    replies = {
        _METADATA: metadata(topics, partitions, port),
        _API_VERSIONS: versions,
        _CONFIGS: lambda request: configs(request, refused),
        _QUORUM: quorum,
    }
    with fake_broker(replies) as broker:
        port.append(broker.port)
        bootstrap = f"127.0.0.1:{broker.port}"
        facts = ClusterSurvey(bootstrap, socket.create_connection).read(pattern=pattern)
    return facts, broker


def test_a_thousand_topics_take_a_handful_of_requests() -> None:
    began = time.process_time()
    facts, broker = survey(1_000, 50)
    assert len(facts.topics) == 1_000
    assert sum(topic.partitions for topic in facts.topics) == 50_000
    assert broker.asked == {_METADATA: 1, _API_VERSIONS: 4, _CONFIGS: 3, _QUORUM: 1}
    assert sum(facts.requests.values()) == broker.asked.total()
    assert time.process_time() - began < 20


def test_refusals_are_named_and_the_rest_is_read() -> None:
    facts, _ = survey(3, 1, refused="t1")
    assert facts.unseen == (
        "settings of topic t1: the user may not describe it",
        "the controllers: the user may not describe the cluster",
    )
    assert [topic.settings is None for topic in facts.topics] == [False, True, False]
    assert facts.controllers is None
    assert [str(broker.release) for broker in facts.brokers] == ["4.4.x"]
    assert facts.brokers[0].rack == "r1"


def test_a_pattern_chooses_topics() -> None:
    facts, _ = survey(12, 1, pattern="t1*")
    assert [topic.name for topic in facts.topics] == ["t1", "t10", "t11"]
    with pytest.raises(UsageError, match="no topic matches 'x'"):
        survey(1, 1, pattern="x")


def test_an_address_that_nobody_listens_on_is_told_with_its_reason() -> None:
    with pytest.raises(HarnessError, match=r"no broker of the cluster answers: .*refused"):
        ClusterSurvey("127.0.0.1:1", socket.create_connection).read()
    with pytest.raises(UsageError, match="--bootstrap 'b1' is no address"):
        ClusterSurvey("b1", socket.create_connection).read()
