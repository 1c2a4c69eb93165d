"""The contents of a Hub, in memory: users, repositories, commits and files.

Every file of a commit is an :class:`Entry`; its bytes are in ``Hub.contents`` under its oid, which is git's SHA-1 for a
small file, and the SHA-256 for one that came through LFS or Xet. A commit makes a new table of all files and then moves
one reference, so that a push is visible completely or not at all.
"""

import datetime
import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

LARGE = 10_000_000  # bytes, from which on a file goes through LFS whatever it is
LARGE_SUFFIXES = (".safetensors", ".bin", ".pt", ".pkl", ".arrow", ".parquet")
NAME = re.compile(r"[\w.-]+/[\w.-]+")


class HubError(Exception):
    """An error of the Hub: the status, a code for the client and a message for the user."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers


@dataclass(frozen=True)
class User:
    name: str
    role: str = "write"
    organizations: tuple[str, ...] = ()

    def may_write(self, namespace: str) -> bool:
        return self.role == "write" and namespace in (self.name, *self.organizations)


@dataclass(frozen=True)
class Entry:
    oid: str
    size: int
    is_large: bool


@dataclass(frozen=True)
class Commit:
    oid: str
    parent: str | None
    title: str
    author: str
    date: str
    files: dict[str, Entry]


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(path: str, size: int) -> bool:
    """Whether a file is sent through LFS or Xet; an empty file never is."""
    return size > 0 and (path.endswith(LARGE_SUFFIXES) or size >= LARGE)


@dataclass
class Repository:
    kind: str  # models, datasets or spaces
    name: str
    private: bool
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pull_requests: dict[int, str] = field(default_factory=dict)
    openings: dict[int, tuple[str, str]] = field(default_factory=dict)  # of every pull request branch and first commit
    commits: dict[str, Commit] = field(default_factory=dict)

    def resolve(self, revision: str) -> Commit:
        """The commit that a branch, tag, pull request or full hash names."""
        names = {**self.tags, **self.branches, **{f"refs/heads/{n}": oid for n, oid in self.branches.items()}}
        names |= {f"refs/pr/{number}": oid for number, oid in self.pull_requests.items()}
        commit = self.commits.get(names.get(revision, revision))
        if commit is None:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def entry(self, revision: str, path: str) -> tuple[Commit, Entry]:
        commit = self.resolve(revision)
        if path not in commit.files:
            raise HubError(404, "Entry not found", "EntryNotFound", **{"X-Repo-Commit": commit.oid})
        return commit, commit.files[path]

    def commit(self, revision: str, title: str, author: str, files: dict[str, Entry], new_pull_request: bool) -> Commit:
        """A commit with these files on top of a branch or pull request, or as a new pull request."""
        parent = self.resolve(revision).oid if self.commits else None
        tree = "\n".join(f"{path} {entry.oid}" for path, entry in sorted(files.items()))
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        oid = hashlib.sha1(f"{parent} {len(self.commits)} {title} {tree}".encode()).hexdigest()
        self.commits[oid] = Commit(oid, parent, title, author, date, files)
        if new_pull_request:
            number = len(self.pull_requests) + 1
            self.pull_requests[number] = oid
            self.openings[number] = revision, oid
        elif revision.startswith("refs/pr/"):
            self.pull_requests[int(revision.removeprefix("refs/pr/"))] = oid
        else:
            self.branches[revision.removeprefix("refs/heads/")] = oid
        return self.commits[oid]

    def history(self, revision: str) -> list[Commit]:
        """The commits that lead to a revision, the newest first."""
        commits = [self.resolve(revision)]
        while commits[-1].parent is not None:
            commits.append(self.commits[commits[-1].parent])
        return commits


class Hub:
    """The whole Hub. The caller is a :class:`User` or, without a token, None."""

    def __init__(self, users: dict[str, User]) -> None:
        self.users = users  # by token
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.contents: dict[str, bytes] = {}
        self.collections: dict[str, dict[str, Any]] = {}  # by slug

    def store(self, content: bytes, large: bool) -> str:
        oid = hashlib.sha256(content).hexdigest() if large else git_oid(content)
        self.contents[oid] = content
        return oid

    def create(self, user: User | None, kind: str, name: str, private: bool) -> Repository:
        namespace = name.split("/")[0]
        if not NAME.fullmatch(name):
            raise HubError(400, f"Invalid repo name: {name}")
        if user is None or not user.may_write(namespace):
            raise HubError(
                403, f'You don\'t have the rights to create a {kind.rstrip("s")} under the namespace "{namespace}"'
            )
        if (kind, name) in self.repositories:
            raise HubError(409, f"You already created this {kind.rstrip('s')} repo: {name}")
        repository = self.repositories[kind, name] = Repository(kind, name, private)
        attributes = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LARGE_SUFFIXES).encode()
        entry = Entry(self.store(attributes, large=False), len(attributes), is_large=False)
        repository.commit("main", "initial commit", user.name, {".gitattributes": entry}, new_pull_request=False)
        return repository

    def readable(self, user: User | None, kind: str, name: str) -> Repository:
        """The repository, if it exists and this user may read it; a private one counts as missing."""
        repository = self.repositories.get((kind, name))
        owns = user is not None and name.split("/")[0] in (user.name, *user.organizations)
        if repository is None or (repository.private and not owns):
            raise HubError(401 if user is None else 404, "Repository not found", "RepoNotFound")
        return repository

    def writable(self, user: User | None, kind: str, name: str) -> Repository:
        repository = self.readable(user, kind, name)
        if user is None:
            raise HubError(401, "Invalid username or password.")
        if not user.may_write(name.split("/")[0]):
            raise HubError(403, f"Your token has no right to write to {name}")
        return repository
