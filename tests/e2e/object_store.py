"""An S3 server of this machine: moto's, in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.servers import free_port

REGION = "eu-central-1"
BUCKET = "lake"
# It takes any; without one, clients do not sign, and the server does not know the bucket.
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret"}


class Store:
    """A bucket.

    Attributes:
        endpoint: The server's address.
    """

    def __init__(self, endpoint: str, answers: Counter[str]) -> None:
        import boto3

        self.endpoint, self._answers = endpoint, answers
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        self.client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )

    @property
    def refused(self) -> int:
        """How many files were refused as their names were taken."""
        return self._answers["412"]

    def put(self, file: Path, name: str) -> None:
        """Copies a file into the bucket.

        Args:
            file: The file.
            name: Its name there.
        """
        self.client.upload_file(str(file), BUCKET, name)

    def names(self, prefix: str) -> list[str]:
        """Returns the names of what is in the bucket.

        Args:
            prefix: How they begin.
        """
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


@contextmanager
def s3_server() -> Iterator[Store]:
    """Runs a server with an empty bucket as long as the block lasts."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    inner = DomainDispatcherApplication(create_backend_app)
    writing = threading.Lock()
    answers: Counter[str] = Counter()

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT":
            return inner(environ, start)  # type: ignore[no-any-return]

        def answer(status: str, *others: Any, **more: Any) -> Any:
            answers[status.partition(" ")[0]] += 1
            return start(status, *others, **more)

        # moto looks for a file and then writes it; Amazon's S3 does both at once.
        with writing:
            return list(inner(environ, answer))

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    port = free_port()
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Store(f"http://127.0.0.1:{port}", answers)
    finally:
        server.shutdown()
        thread.join()
