"""The Hub over HTTP: it answers requests with the contents of ``repositories.py`` and ``xet.py``.

The decorator of a handler has the method and the path that it answers. ``{repo}`` is two parts of a path; every other
name in braces is one part, which may have an encoded slash. The endpoint is 127.0.0.1 and the host of large files is
localhost, on the same port. For the client these are two origins, and only the first may get a token.
"""

import base64
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.hub.faults import Fault
from tests.hub.repositories import Commit, Entry, Hub, HubError, Repository, User, is_large
from tests.hub.xet import XetStore

Handler = Callable[..., Awaitable[Response]]
ROUTES: list[tuple[set[str], re.Pattern[str], Handler]] = []
PLACEHOLDERS = {"kind": "(?P<kind>models|datasets|spaces)", "repo": "(?P<repo>[^/]+/[^/]+)", "path": "(?P<path>.+)"}


def route(methods: str, template: str) -> Callable[[Handler], Handler]:
    pattern = re.sub(r"{(\w+)}", lambda name: PLACEHOLDERS.get(name[1], f"(?P<{name[1]}>[^/]+)"), template)

    def register(handler: Handler) -> Handler:
        ROUTES.append((set(methods.split()), re.compile(pattern), handler))
        return handler

    return register


@dataclass
class Call:
    """A request that was answered."""

    method: str
    path: str
    host: str
    status: int
    has_token: bool
    bytes_in: int
    bytes_out: int


class Incoming(NamedTuple):
    """A request that a handler answers."""

    state: "Protocol"
    request: Request
    user: User | None
    body: bytes


@dataclass
class Protocol:
    """The ASGI application.

    Attributes:
        log: every answered request
        faults: the faults to simulate
        uploads: the places for large files that clients were told, by the secret part of the address
    """

    hub: Hub
    xet: XetStore = field(default_factory=XetStore)
    log: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    uploads: dict[str, str] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path = scope["raw_path"].decode()
        fault = next((fault for fault in self.faults if fault.applies(request.method, unquote(path))), None)
        body = bytearray()
        try:
            async for part in request.stream():
                body += part
                if fault is not None and fault.effect == "cut upload" and body:
                    return await _hang_up(send)
        except ClientDisconnect:
            return
        if fault is not None and fault.effect == "drop":
            return send.__self__.transport.abort()  # type: ignore[attr-defined]  # of uvicorn: ASGI cannot hang up
        if fault is not None and fault.effect == "refuse":
            response = _refusal(HubError(fault.status, "the test has the Hub fail here", fault.code))
        else:
            response = await self._answer(request, path, bytes(body))
        content = bytes(response.body)
        if fault is not None and fault.effect == "shorten":
            response = Response(content[: len(content) // 2], response.status_code, headers=_without_length(response))
        elif fault is not None and fault.effect == "flip":
            content = content[:-1] + bytes([content[-1] ^ 1])
            response = Response(content, response.status_code, headers=_without_length(response))
        has_token = "authorization" in request.headers
        sent = len(response.body) // (2 if fault is not None and fault.effect == "cut download" else 1)
        sent = 0 if request.method == "HEAD" else sent
        host = request.headers["host"]
        self.log.append(Call(request.method, unquote(path), host, response.status_code, has_token, len(body), sent))
        if fault is not None and fault.effect == "cut download":
            return await _hang_up(send, response, content[: len(content) // 2])
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: str, body: bytes) -> Response:
        try:
            user = self._user(request)
            for methods, pattern, handler in ROUTES:
                found = pattern.fullmatch(path)
                if found and request.method in methods:
                    names = {name: unquote(value) for name, value in found.groupdict(default="").items()}
                    return await handler(Incoming(self, request, user, body), **names)
            raise HubError(404, f"nothing at {path}")
        except HubError as error:
            return _refusal(error)

    def _user(self, request: Request) -> User | None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not token or request.url.path.startswith(("/cas/", "/v1/")):  # the store has tokens of its own
            return None
        if token not in self.hub.users:
            raise HubError(401, "Invalid credentials in Authorization header")
        return self.hub.users[token]


async def _hang_up(send: Send, response: Response | None = None, content: bytes = b"") -> None:
    """Begin an answer, then break the connection."""
    headers = [(b"content-length", b"100")] if response is None else response.raw_headers
    status = 200 if response is None else response.status_code
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": True})
    raise ConnectionAbortedError("as a test asked for")


def _without_length(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name != "content-length"}


def _refusal(error: HubError) -> Response:
    headers = {"X-Error-Message": error.message, **error.headers}
    if error.code is not None:
        headers["X-Error-Code"] = error.code
    return JSONResponse({"error": error.message}, error.status, headers=headers)


def base_url(request: Request) -> str:
    return f"http://127.0.0.1:{request.url.port}"


# Users and repositories -----------------------------------------------------------------------------------------------


@route("GET", "/api/whoami-v2")
async def whoami(call: Incoming) -> Response:
    if call.user is None:
        raise HubError(401, "Invalid username or password.")
    token = {"type": "access_token", "accessToken": {"displayName": "test", "role": call.user.role}}
    organizations = [{"name": name, "type": "org"} for name in call.user.organizations]
    return JSONResponse(
        {"type": "user", "name": call.user.name, "fullname": call.user.name, "orgs": organizations, "auth": token}
    )


@route("POST", "/api/repos/create")
async def create(call: Incoming) -> Response:
    asked = json.loads(call.body)
    kind = asked.get("type", "model") + "s"
    if call.user is None:
        raise HubError(401, "Invalid username or password.")
    name = f"{asked.get('organization') or call.user.name}/{asked['name']}"
    url = f"{base_url(call.request)}/{'' if kind == 'models' else kind + '/'}{name}"
    try:
        call.state.hub.create(call.user, kind, name, asked.get("visibility") == "private")
    except HubError as error:
        if error.status != 409:
            raise
        return JSONResponse({"error": error.message, "url": url}, 409)
    return JSONResponse({"url": url})


@route("GET", "/api/{kind}/{repo}/auth-check(?P<write>/write)?")
async def auth_check(call: Incoming, kind: str, repo: str, write: str) -> Response:
    (call.state.hub.writable if write else call.state.hub.readable)(call.user, kind, repo)
    return JSONResponse({})


@route("GET", "/api/{kind}/{repo}(/revision/{rev})?")
async def info(call: Incoming, kind: str, repo: str, rev: str) -> Response:
    repository = call.state.hub.readable(call.user, kind, repo)
    commit = repository.resolve(rev or "main")
    siblings = [{"rfilename": path} for path in sorted(commit.files)]
    return JSONResponse(
        {
            "id": repo,
            "modelId": repo,
            "sha": commit.oid,
            "private": repository.private,
            "lastModified": commit.date,
            "siblings": siblings,
            "tags": [],
        }
    )


# Branches and pull requests -------------------------------------------------------------------------------------------


@route("POST", "/api/{kind}/{repo}/branch/{name}")
async def branch(call: Incoming, kind: str, repo: str, name: str) -> Response:
    repository = call.state.hub.writable(call.user, kind, repo)
    if name in repository.branches:
        raise HubError(409, f"Reference already exists: {name}")
    start = json.loads(call.body or b"{}").get("startingPoint") or "main"
    repository.branches[name] = repository.resolve(start).oid
    return JSONResponse({})


@route("POST", "/api/{kind}/{repo}/tag/{rev}")
async def tag(call: Incoming, kind: str, repo: str, rev: str) -> Response:
    repository, name = call.state.hub.writable(call.user, kind, repo), json.loads(call.body)["tag"]
    if name in repository.tags:
        raise HubError(409, f"Tag reference exists already: {name}")
    repository.tags[name] = repository.resolve(rev).oid
    return JSONResponse({})


def _request(repository: Repository, number: int) -> dict[str, Any]:
    """Every pull request is open: nothing here closes one."""
    branch, oid = repository.openings[number]
    opened = repository.commits[oid]
    return {
        "title": opened.title,
        "num": number,
        "author": {"name": opened.author},
        "createdAt": opened.date,
        "status": "open",
        "repo": {"name": repository.name, "type": repository.kind.removesuffix("s")},
        "isPullRequest": True,
        "events": [],
        "changes": {"base": f"refs/heads/{branch}"},
        "filesWithConflicts": [],
        "diff": "",
    }


@route("GET", "/api/{kind}/{repo}/discussions(/{number})?")
async def discussions(call: Incoming, kind: str, repo: str, number: str) -> Response:
    repository = call.state.hub.readable(call.user, kind, repo)
    if number:
        return JSONResponse(_request(repository, int(number)))
    found = [_request(repository, number) for number in repository.openings]
    author = call.request.query_params.get("author")
    found = [item for item in found if author in (None, item["author"]["name"])]
    return JSONResponse({"discussions": found, "count": len(found), "start": 0})


# Files ----------------------------------------------------------------------------------------------------------------


def _listed(state: Protocol, path: str, entry: Entry) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "file", "path": path, "size": entry.size, "oid": entry.oid}
    if entry.is_large:
        item["lfs"] = {"oid": entry.oid, "size": entry.size, "pointerSize": 134}
        item["oid"] = entry.oid[:40]
        if entry.oid in state.xet.hashes:
            item["xetHash"] = state.xet.hashes[entry.oid]
    return item


@route("GET", "/api/{kind}/{repo}/tree/{rev}(/{path})?")
async def tree(call: Incoming, kind: str, repo: str, rev: str, path: str) -> Response:
    commit = call.state.hub.readable(call.user, kind, repo).resolve(rev)
    prefix = path.rstrip("/") + "/" if path else ""
    below = {name: entry for name, entry in sorted(commit.files.items()) if name.startswith(prefix)}
    if prefix and not below:
        raise HubError(404, f"{path} does not exist", "EntryNotFound", **{"X-Repo-Commit": commit.oid})
    recursive = call.request.query_params.get("recursive", "false").lower() == "true"
    items: dict[str, dict[str, Any]] = {}
    for name, entry in below.items():
        folder, is_deeper, _ = name.removeprefix(prefix).partition("/")
        if is_deeper:
            items.setdefault(
                prefix + folder, {"type": "directory", "path": prefix + folder, "oid": "0" * 40, "size": 0}
            )
        if recursive or not is_deeper:
            items[name] = _listed(call.state, name, entry)
    return JSONResponse(list(items.values()))


@route("GET HEAD", "/((?P<kind>datasets|spaces)/)?{repo}/resolve/{rev}/{path}")
async def resolve(call: Incoming, kind: str, repo: str, rev: str, path: str) -> Response:
    kind = kind or "models"
    commit, entry = call.state.hub.readable(call.user, kind, repo).entry(rev, path)
    headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{entry.oid}"', "Accept-Ranges": "bytes"}
    if not entry.is_large:
        return ranged(call.request, call.state.hub.contents[entry.oid], headers)
    headers |= {"X-Linked-Etag": f'"{entry.oid}"', "X-Linked-Size": str(entry.size)}
    headers["Location"] = f"http://localhost:{call.request.url.port}/large/{entry.oid}"
    if entry.oid in call.state.xet.hashes:
        headers["X-Xet-Hash"] = call.state.xet.hashes[entry.oid]
        headers["X-Xet-Refresh-Route"] = f"{base_url(call.request)}/api/{kind}/{repo}/xet-read-token/{commit.oid}"
    return Response(status_code=302, headers=headers)


@route("GET HEAD", "/large/{oid}")
async def large(call: Incoming, oid: str) -> Response:
    return ranged(call.request, call.state.hub.contents[oid], {"ETag": f'"{oid}"', "Accept-Ranges": "bytes"})


def ranged(request: Request, content: bytes, headers: dict[str, str]) -> Response:
    """The requested part of the content."""
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if asked is None:
        return Response(content, headers=headers, media_type="application/octet-stream")
    first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
    if first >= len(content):
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{len(content)}"})
    headers = {**headers, "Content-Range": f"bytes {first}-{last}/{len(content)}"}
    return Response(content[first : last + 1], 206, headers=headers, media_type="application/octet-stream")


# Commits --------------------------------------------------------------------------------------------------------------


@route("POST", "/api/validate-yaml")
async def validate_yaml(call: Incoming) -> Response:
    return JSONResponse({"errors": [], "warnings": []})


def may_commit(call: Incoming, kind: str, repo: str, rev: str) -> Repository:
    """Everybody with a token may open a pull request; other commits need its author, or the right to write."""
    repository = call.state.hub.readable(call.user, kind, repo)
    if call.user is not None and "create_pr" in call.request.query_params:
        return repository
    if call.user is not None and rev.startswith("refs/pr/"):
        _, opened = repository.openings[int(rev.removeprefix("refs/pr/"))]
        if repository.commits[opened].author == call.user.name:
            return repository
    return call.state.hub.writable(call.user, kind, repo)


@route("POST", "/api/{kind}/{repo}/preupload/{rev}")
async def preupload(call: Incoming, kind: str, repo: str, rev: str) -> Response:
    commit = may_commit(call, kind, repo, rev).resolve(rev)
    answers = []
    for file in json.loads(call.body)["files"]:
        mode = "lfs" if is_large(file["path"], file["size"]) else "regular"
        answer = {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
        if file["path"] in commit.files:
            answer["oid"] = commit.files[file["path"]].oid
        answers.append(answer)
    return JSONResponse({"files": answers})


@route("POST", "/api/{kind}/{repo}/commit/{rev}")
async def commit(call: Incoming, kind: str, repo: str, rev: str) -> Response:
    repository = may_commit(call, kind, repo, rev)
    before = repository.resolve(rev)
    files, header = dict(before.files), {}
    for line in call.body.splitlines():
        key, value = (item := json.loads(line))["key"], item["value"]
        if key == "header":
            header = value
            if header.get("parentCommit") not in (None, before.oid):
                raise HubError(412, "A commit has happened since. Please refresh and try again.")
        elif key == "file":
            content = base64.b64decode(value["content"])
            files[value["path"]] = Entry(call.state.hub.store(content, large=False), len(content), is_large=False)
        elif key == "lfsFile":
            if value["oid"] not in call.state.hub.contents:
                raise HubError(400, f"LFS pointer pointed to a file that does not exist: {value['path']}")
            files[value["path"]] = Entry(value["oid"], len(call.state.hub.contents[value["oid"]]), is_large=True)
        else:  # deletedFile or deletedFolder
            gone = [path for path in files if path == value["path"] or path.startswith(value["path"].rstrip("/") + "/")]
            if not gone:
                raise HubError(404, "A file with this name doesn't exist", "EntryNotFound")
            for path in gone:
                del files[path]
    is_new = "create_pr" in call.request.query_params
    assert call.user is not None
    made: Commit = repository.commit(rev, header["summary"], call.user.name, files, is_new)
    url = f"{base_url(call.request)}/{'' if kind == 'models' else kind + '/'}{repo}"
    answer = {"success": True, "commitOid": made.oid, "commitUrl": f"{url}/commit/{made.oid}"}
    if is_new:
        answer["pullRequestUrl"] = f"{url}/discussions/{len(repository.pull_requests)}"
    return JSONResponse(answer)
