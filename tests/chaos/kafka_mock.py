"""librdkafka's own mock cluster, which answers single requests with errors as it is told.

An injector of errors and nothing more: it fences nobody, forgets offsets of transactions and shows what was aborted,
so that it proves nothing about exactly once (docs/design/fault-tests.md 4). Used by `kafka_errors`.
"""

import ctypes
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from importlib.metadata import files
from typing import Self

from penstock.model.errors import BugError

_WHEEL = "confluent-kafka"
_LIBRARY = "*libs/librdkafka*"
_PRODUCER = 0
_REPLICAS = 1
_TEXT_BYTES = 512


class Api(IntEnum):
    """Requests of Kafka's protocol, by their keys."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class MockCluster:
    """A cluster in this process. Use as a context manager; clients that are still there afterwards find no broker."""

    def __init__(self, brokers: int = 1) -> None:
        """Start it."""
        self._library = _library()
        why = ctypes.create_string_buffer(_TEXT_BYTES)
        # It lives on the threads of a client, which does nothing else.
        settings = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", why, _TEXT_BYTES)
        self._client = self._library.rd_kafka_new(_PRODUCER, settings, why, _TEXT_BYTES)
        if not self._client:
            raise BugError(f"librdkafka makes no client for its mock cluster: {why.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        if not self._cluster:
            raise BugError("librdkafka makes no mock cluster")
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    @property
    def bootstrap(self) -> str:
        """The address of its brokers."""
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic and return its name."""
        self._check(self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, _REPLICAS))
        return name

    def push_errors(self, api: Api, codes: Sequence[int]) -> None:
        """Let the next requests of a kind fail with these errors, in this order; `TRANSPORT` ends the connection."""
        given = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api, len(codes), given)

    def clear_errors(self, api: Api) -> None:
        """Forget those that no request has met."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api)

    def requests(self) -> Counter[int]:
        """Return how many requests came so far, by their keys."""
        count = ctypes.c_size_t()
        found = self._library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        keys = Counter(int(self._library.rd_kafka_mock_request_api_key(found[index])) for index in range(count.value))
        self._library.rd_kafka_mock_request_destroy_array(found, count)
        return keys

    def close(self) -> None:
        """End it."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _check(self, code: int) -> None:
        if code:
            raise BugError(f"the mock cluster refuses: {error_name(code)}")


TRANSPORT = -195
"""librdkafka's code for a connection that is gone."""


def error_name(code: int) -> str:
    """Return what librdkafka calls an error, such as ``NOT_LEADER_FOR_PARTITION``."""
    name: bytes = _library().rd_kafka_err2name(code)
    return name.decode()


def error_text(code: int) -> str:
    """Return librdkafka's sentence about an error, which its messages hold."""
    text: bytes = _library().rd_kafka_err2str(code)
    return text.decode()


@cache
def _library() -> ctypes.CDLL:
    """Return the library that the clients of this process use."""
    (path,) = (file for file in files(_WHEEL) or () if file.match(_LIBRARY))
    library = ctypes.CDLL(str(path.locate()))
    handle, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    code, key = ctypes.c_int, ctypes.c_int16
    for name, result, arguments in (
        ("rd_kafka_conf_new", handle, []),
        ("rd_kafka_conf_set", code, [handle, text, text, text, size]),
        ("rd_kafka_new", handle, [code, handle, text, size]),
        ("rd_kafka_destroy", None, [handle]),
        ("rd_kafka_err2name", text, [code]),
        ("rd_kafka_err2str", text, [code]),
        ("rd_kafka_mock_cluster_new", handle, [handle, code]),
        ("rd_kafka_mock_cluster_destroy", None, [handle]),
        ("rd_kafka_mock_cluster_bootstraps", text, [handle]),
        ("rd_kafka_mock_topic_create", code, [handle, text, code, code]),
        ("rd_kafka_mock_push_request_errors_array", None, [handle, key, size, ctypes.POINTER(code)]),
        ("rd_kafka_mock_clear_request_errors", None, [handle, key]),
        ("rd_kafka_mock_start_request_tracking", None, [handle]),
        ("rd_kafka_mock_get_requests", ctypes.POINTER(handle), [handle, ctypes.POINTER(size)]),
        ("rd_kafka_mock_request_api_key", key, [handle]),
        ("rd_kafka_mock_request_destroy_array", None, [ctypes.POINTER(handle), size]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
