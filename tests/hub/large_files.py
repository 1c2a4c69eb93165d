"""Large files through LFS and through Xet: the handlers of both, see ``protocol.py``."""

import json
import re
import secrets
import time

from starlette.responses import JSONResponse, Response

from tests.hub.protocol import Incoming, base_url, may_commit, ranged, route
from tests.hub.repositories import HubError

# Large files through LFS ----------------------------------------------------------------------------------------------


@route("POST", "/((?P<kind>datasets|spaces)/)?{repo}.git/info/lfs/objects/batch")
async def batch(call: Incoming, kind: str, repo: str) -> Response:
    call.state.hub.readable(call.user, kind or "models", repo)
    objects = json.loads(call.body)["objects"]
    for item in objects:
        if item["oid"] not in call.state.hub.contents:
            secret = secrets.token_hex(16)
            call.state.uploads[secret] = item["oid"]
            verify = f"{base_url(call.request)}/{repo}.git/info/lfs/objects/verify"
            href = f"http://localhost:{call.request.url.port}/upload/{secret}"
            item["actions"] = {"upload": {"href": href}, "verify": {"href": verify}}
    return JSONResponse({"transfer": "basic", "objects": objects})


@route("PUT", "/upload/{secret}")
async def upload(call: Incoming, secret: str) -> Response:
    expected = call.state.uploads[secret]
    if call.state.hub.store(call.body, large=True) != expected:
        raise HubError(400, f"the bytes are not those of {expected}")
    return Response()


@route("POST", "/{repo}.git/info/lfs/objects/verify")
async def verify(call: Incoming, repo: str) -> Response:
    asked = json.loads(call.body)
    if len(call.state.hub.contents.get(asked["oid"], b"")) != asked["size"]:
        raise HubError(404, f"no object {asked['oid']} of {asked['size']} bytes")
    return JSONResponse({})


# Large files through Xet ----------------------------------------------------------------------------------------------


@route("GET", "/api/{kind}/{repo}/xet-(?P<right>read|write)-token/{rev}")
async def xet_token(call: Incoming, kind: str, repo: str, right: str, rev: str) -> Response:
    if right == "write":
        may_commit(call, kind, repo, rev)
    else:
        call.state.hub.readable(call.user, kind, repo)
    url, token, until = f"http://localhost:{call.request.url.port}/cas", secrets.token_hex(8), int(time.time()) + 3600
    headers = {"X-Xet-Access-Token": token, "X-Xet-Token-Expiration": str(until), "X-Xet-Cas-Url": url}
    return JSONResponse({"accessToken": token, "exp": until, "casUrl": url}, headers=headers)


@route("POST", "/cas/v1/xorbs/default/{xorb}")
async def add_xorb(call: Incoming, xorb: str) -> Response:
    is_new = xorb not in call.state.xet.xorbs
    call.state.xet.xorbs[xorb] = call.body
    return JSONResponse({"was_inserted": is_new})


@route("POST", "/cas/v1/shards")
async def add_shard(call: Incoming) -> Response:
    for content in call.state.xet.add_shard(call.body):
        call.state.hub.store(content, large=True)
    return JSONResponse({"result": 1})


@route("GET", "/cas/v1/reconstructions/{name}")
async def reconstruction(call: Incoming, name: str) -> Response:
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.request.headers.get("range", ""))
    url = f"http://localhost:{call.request.url.port}/xorbs"
    return JSONResponse(call.state.xet.reconstruction(name, int(asked[1]) if asked else 0, url))


@route("GET", "/xorbs/{xorb}")
async def xorb_bytes(call: Incoming, xorb: str) -> Response:
    return ranged(call.request, call.state.xet.xorbs[xorb], {})
