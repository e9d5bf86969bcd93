"""A program that runs moto's S3 server on the loopback interface, one put at a time.

::

    python -m tests.helpers.moto PORT

moto looks whether an object is there before it makes it, and other threads may come between.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


def main(port: int) -> None:
    """Serve until the process is killed."""
    application: Any = DomainDispatcherApplication(create_backend_app)
    puts = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with puts if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
            answer: Iterable[bytes] = application(environ, start_response)
            return answer

    run_simple("127.0.0.1", port, serve, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
