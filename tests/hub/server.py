"""The Hub on loopback: a port of this machine that speaks the Hub's protocol during a test."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.hub import collections_of_models, large_files  # noqa: F401  (they add their handlers)
from tests.hub.faults import Effect, Fault
from tests.hub.protocol import Call, Protocol
from tests.hub.repositories import Entry, Hub, Repository, User, is_large
from tests.hub.xet import XetStore

OWNER, READER, STRANGER = "hf_owner", "hf_reader", "hf_stranger"  # tokens
USERS = {OWNER: User("zoo", organizations=("institute",)), READER: User("zoo", role="read"), STRANGER: User("stranger")}


class LoopbackHub:
    """A running Hub, its contents, its log and the faults to simulate."""

    def __init__(self, protocol: Protocol, port: int) -> None:
        self._protocol, self.port = protocol, port
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def log(self) -> list[Call]:
        return self._protocol.log

    @property
    def hub(self) -> Hub:
        return self._protocol.hub

    @property
    def xet(self) -> XetStore:
        return self._protocol.xet

    def repository(self, name: str) -> Repository:
        return self.hub.repositories["models", name]

    def put(self, name: str, files: dict[str, bytes], private: bool = False) -> Repository:
        """A repository with these files, as if somebody had pushed them."""
        repository = self.hub.create(User(name.split("/")[0]), "models", name, private)
        entries = {
            path: Entry(
                self.hub.store(content, is_large(path, len(content))), len(content), is_large(path, len(content))
            )
            for path, content in files.items()
        }
        repository.commit("main", "Upload", "zoo", entries, new_pull_request=False)
        return repository

    def calls(self, method: str, part: str) -> list[Call]:
        """The answered requests of a method with this in their path."""
        return [call for call in self.log if call.method == method and part in call.path]

    def fail(
        self, method: str, pattern: str, effect: Effect, times: int = 1, status: int = 500, code: str | None = None
    ) -> Fault:
        """Simulate a fault in the next requests; see :class:`Fault`."""
        self._protocol.faults.append(fault := Fault(method, pattern, effect, times, status, code))
        return fault

    def flip(self, repo: str, path: str) -> None:
        """Flip the last bit of a stored file, which does not change its size; a second call flips it back."""
        entry = self.repository(repo).resolve("main").files[path]
        content = self.hub.contents[entry.oid]
        self.hub.contents[entry.oid] = content[:-1] + bytes([content[-1] ^ 1])
        if entry.oid in self.xet.hashes:
            self.xet.flip(entry.oid)


@contextmanager
def loopback_hub() -> Iterator[LoopbackHub]:
    protocol = Protocol(Hub(USERS))
    # Clients use an idle connection for 5 s, and uvicorn would close it after 5 s: sometimes during a request.
    settings: dict[str, Any] = {"log_level": 60, "lifespan": "off", "access_log": False, "timeout_keep_alive": 60}
    config = uvicorn.Config(protocol, "127.0.0.1", port=0, **settings)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield LoopbackHub(protocol, port)
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join()
