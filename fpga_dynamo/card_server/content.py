"""Content by its digest: packed weights and xclbins, kept between sessions, the least recently used ones dropped."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

from fpga_dynamo.errors import DeviceError


class ContentStore:
    """At most `most_bytes` of content."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all content."""
        return self._nbytes

    def get(self, digest: str) -> bytes | None:
        """The content with this digest, if it is there."""
        with self._lock:
            content = self._known.get(digest)
            if content is not None:
                self._known.move_to_end(digest)
            return content

    def put(self, digest: str, content: Any) -> None:
        """Keeps content. Raises DeviceError if the digest is another's: clients share what is kept."""
        if hashlib.sha256(content).hexdigest() != digest:
            raise DeviceError("the content of a request does not have the digest that the request names")
        copied = bytes(content)
        with self._lock:
            if digest in self._known or len(copied) > self._most:
                return
            self._known[digest] = copied
            self._nbytes += len(copied)
            while self._nbytes > self._most:
                _, dropped = self._known.popitem(last=False)
                self._nbytes -= len(dropped)
