"""Collections: lists of repositories, each with a note."""

import json
from typing import Any

from starlette.responses import JSONResponse, Response

from tests.hub.protocol import Incoming, route
from tests.hub.repositories import HubError


@route("POST", "/api/collections")
async def create(call: Incoming) -> Response:
    asked = json.loads(call.body)
    if call.user is None or not call.user.may_write(asked["namespace"]):
        raise HubError(403, "You have no right to create a collection there")
    slug = f"{asked['namespace']}/{asked['title']}-1"
    if slug in call.state.hub.collections:
        return JSONResponse({"error": "it exists", "slug": slug}, 409)
    call.state.hub.collections[slug] = asked | {"items": {}}
    return JSONResponse(_shown(call, slug))


@route("GET", "/api/collections/{repo}")
async def show(call: Incoming, repo: str) -> Response:
    return JSONResponse(_shown(call, repo))


@route("POST", "/api/collections/{repo}/items")
async def add(call: Incoming, repo: str) -> Response:
    asked = json.loads(call.body)
    items, name = call.state.hub.collections[repo]["items"], asked["item"]["id"]
    call.state.hub.readable(call.user, "models", name)
    if len(asked.get("note") or "") > 500:
        raise HubError(400, "a note has at most 500 characters")
    if name in items:
        return JSONResponse({"error": "it is there"}, 409)
    items[name] = asked.get("note")
    return JSONResponse(_shown(call, repo))


@route("PATCH", "/api/collections/{repo}/items/{name}")
async def change(call: Incoming, repo: str, name: str) -> Response:
    call.state.hub.collections[repo]["items"][name.replace(".", "/")] = json.loads(call.body)["note"]
    return JSONResponse({})


def _shown(call: Incoming, slug: str) -> dict[str, Any]:
    collection = call.state.hub.collections[slug]
    items = [
        {"_id": name.replace("/", "."), "id": name, "type": "model", "position": place, "note": {"text": note}}
        for place, (name, note) in enumerate(collection["items"].items())
    ]
    named = {"title": collection["title"], "private": collection["private"], "description": collection["description"]}
    owner = {"name": collection["namespace"]}
    return (
        {"slug": slug, "owner": owner, "items": items, "position": 0, "theme": "blue", "upvotes": 0}
        | named
        | {"lastUpdated": "2025-01-01T00:00:00.000Z"}
    )
