"""A stand-in of the Hugging Face Hub on this machine: the part of its HTTP interface that huggingface_hub needs here.

Repositories with commits; small files inside a commit, weights by Git LFS; private repositories, tokens.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_secretsecretsecret"


@dataclass
class Repository:
    """Files by name for each commit, oldest first."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes]) -> str:
        name = hashlib.sha1(json.dumps([len(self.commits), sorted(files)]).encode()).hexdigest()
        self.commits[name] = files
        return name

    def files(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision == "main" and self.commits:
            revision = list(self.commits)[-1]
        return (revision, self.commits[revision]) if revision in self.commits else None


class Hub(ThreadingHTTPServer):
    """The server, and what it holds."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}  # of Git LFS, by SHA-256
        self.requests: list[str] = []
        self.failing = 0  # a status to answer everything with
        self.names_sizes = True
        self.refuses_weights = False  # after it has accepted everything else

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Yield a hub that answers until the block ends."""
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 (names of the library)

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else self._chunks()
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.failing:
            self._send(self.server.failing, {"error": "no"})
            return
        path = self.path.partition("?")[0]
        for pattern, method in ROUTES:
            if found := re.fullmatch(pattern, f"{self.command} {path}"):
                getattr(self, method)(**found.groupdict())
                return
        self._send(404, {"error": f"unknown: {self.path}"})

    def _chunks(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return b""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _may_write(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _repository(self, repo: str) -> Repository | None:
        """The repository; an answer that there is none, also if it is private and the token does not fit."""
        found = self.server.repositories.get(repo)
        if found is None or (found.private and not self._may_write()):
            self._send(401, {"error": "no"}, {"X-Error-Code": "RepoNotFound"})
            return None
        return found

    def info(self, repo: str, revision: str = "main") -> None:
        if (found := self._repository(repo)) is None:
            return
        files = found.files(revision)
        if files is None:
            self._send(404, {"error": "no"}, {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [{"rfilename": name} for name in files[1]]
        if self.server.names_sizes and "blobs=" in self.path:
            siblings = [{"rfilename": name, "size": len(content)} for name, content in files[1].items()]
        self._send(200, {"id": repo, "sha": files[0], "private": found.private, "siblings": siblings})

    def tree(self, repo: str, revision: str) -> None:
        if (found := self._repository(repo)) is not None:
            _, files = found.files(revision) or ("", {})
            oids = {name: hashlib.sha1(content).hexdigest() for name, content in files.items()}
            self._send(200, [{"type": "file", "path": p, "oid": oids[p], "size": len(files[p])} for p in files])

    def file(self, repo: str, revision: str, name: str) -> None:
        if (found := self._repository(repo)) is None:
            return
        commit, files = found.files(revision) or ("", {})
        if name not in files:
            self._send(404, {"error": "no"}, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha256(files[name]).hexdigest()
        self._send(200, files[name], {"ETag": f'"{etag}"', "X-Repo-Commit": commit})

    def create(self) -> None:
        if not self._may_write():
            self._send(401, {"error": "Invalid username or password."})
            return
        wanted = json.loads(self.body)
        repo = f"{wanted['organization']}/{wanted['name']}"
        status = 409 if repo in self.server.repositories else 200
        if status == 200:
            self.server.repositories[repo] = Repository(
                bool(wanted.get("private")) or wanted.get("visibility") == "private"
            )
            self.server.repositories[repo].commit({".gitattributes": b"*.safetensors filter=lfs\n"})
        self._send(status, {"url": f"{self.server.url}/{repo}", "name": repo})

    def valid(self) -> None:
        self._send(200, {"errors": [], "warnings": []})

    def preupload(self, repo: str, revision: str) -> None:
        files = [
            {"path": each["path"], "uploadMode": "lfs" if each["path"].endswith(".safetensors") else "regular"}
            for each in json.loads(self.body)["files"]
        ]
        self._send(200, {"files": [{**each, "shouldIgnore": False} for each in files]})

    def batch(self, repo: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.server.url}/lfs/{each['oid']}"}}}
            for each in json.loads(self.body)["objects"]
        ]
        self._send(200, {"transfer": "basic", "objects": objects})

    def put(self, oid: str) -> None:
        if self.server.refuses_weights:
            self._send(403, {"error": "no"})
            return
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.server.objects[oid] = self.body
        self._send(200, {})

    def commit(self, repo: str, revision: str) -> None:
        if (found := self._repository(repo)) is None:
            return
        files = dict((found.files(revision) or ("", {}))[1])
        for line in self.body.splitlines():
            each = json.loads(line)
            value = each["value"]
            if each["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif each["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif each["key"] == "deletedFile":
                del files[value["path"]]
        name = found.commit(files)
        self._send(200, {"success": True, "commitOid": name, "commitUrl": f"{self.server.url}/{repo}/commit/{name}"})


_REPO = r"(?P<repo>[^/]+/[^/]+)"
ROUTES = [
    ("POST /api/repos/create", "create"),
    ("POST /api/validate-yaml", "valid"),
    (f"GET /api/models/{_REPO}/revision/(?P<revision>.+)", "info"),
    (f"GET /api/models/{_REPO}/tree/(?P<revision>.+)", "tree"),
    (f"GET /api/models/{_REPO}", "info"),
    (f"POST /api/models/{_REPO}/preupload/(?P<revision>.+)", "preupload"),
    (f"POST /api/models/{_REPO}/commit/(?P<revision>.+)", "commit"),
    (rf"POST /{_REPO}\.git/info/lfs/objects/batch", "batch"),
    ("PUT /lfs/(?P<oid>[0-9a-f]+)", "put"),
    (f"(GET|HEAD) /{_REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", "file"),
]
