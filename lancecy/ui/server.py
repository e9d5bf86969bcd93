"""The program that listens."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

__all__ = ["serve"]

_WORKER = "lancecy-ui"


class _Handler(WSGIRequestHandler):
    """Says nothing of each request, since the first address has the token; waits for no visitor without end."""

    timeout = 30

    def version_string(self) -> str:
        return "lancecy"

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


def serve(application: WSGIApplication, host: str, port: int, started: Callable[[str], None]) -> None:
    """Answer requests until the keyboard interrupts.

    Parameters
    ----------
    application : WSGI application
    host : str
        Address to listen to.
    port : int
        0 takes a free one.
    started : function of str
        Called with the address, such as ``http://127.0.0.1:8080``, once requests are answered.

    Raises
    ------
    OSError
        The address cannot be listened to.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Bound here: werkzeug would end the program where another one has the port.
    with socket.create_server((host, port), family=family, backlog=128) as bound:
        server = make_server(
            host, port, application, threaded=True, request_handler=_Handler, fd=bound.fileno()
        )
    try:
        started(f"http://{_shown(host)}:{server.port}")
        server.serve_forever()  # until the keyboard interrupts
    finally:
        server.server_close()
    if any(thread.name == _WORKER for thread in threading.enumerate()):
        # A filter is still at work. Nothing is written here, so it may be cut off.
        os._exit(0)


def _shown(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
