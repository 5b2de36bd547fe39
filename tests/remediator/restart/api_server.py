"""A Kubernetes API of one's own: kmock's emulator, and what it leaves out of the real one.

kmock stores, lists, patches and deletes objects over HTTP. Added here: label and field selectors, a
page's limit, the precondition of a delete, refusals by role, and answers that never come.
"""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from kmock import KubernetesEmulator, KubernetesError, Request, Server, action, resource

PODS = resource("", "v1", "pods")
NAMESPACE = "ml"
VERBS = {
    action.LIST: "list",
    action.FETCH: "get",
    action.DELETE: "delete",
    action.UPDATE: "patch",
}
REPLICA_SET = {"kind": "ReplicaSet", "name": "gpu-a-7d9", "controller": True}


class Emulator(KubernetesEmulator):
    """``denied``: (action, plural) that no role allows; ``mute``: actions done but not answered.
    ``allowed``: (verb, plural), nothing else then is.

    ``anew``: names of pods that their owner makes anew at once, under the same name. ``lost``:
    names of pods on a node that no longer answers, which stay as they were.
    """

    denied: set[tuple[action, str]]
    allowed: set[tuple[str, str]] | None = None
    mute: set[action]
    anew: set[str]
    lost: set[str]
    seen: list[Request]
    locked_out = False
    swap_after_look: str | None = None
    page: str | None = None

    async def _handle(self, request: Request) -> web.StreamResponse:
        self.seen.append(request)
        if self.page is not None:
            return web.Response(text=self.page, content_type="text/html")
        if self.locked_out:
            raise KubernetesError(401, "Unauthorized", "Unauthorized")
        plural = (request.resource.plural if request.resource else None) or ""
        if request.action and self._is_denied(request.action, plural):
            message = f'{plural} is forbidden: User "gpu" cannot do that'
            raise KubernetesError(403, "Forbidden", message)
        if request.action is action.DELETE:
            self._check_precondition(request)
        if request.action is action.LIST and plural == "pods":
            return self._listed(request)
        answer = await super()._handle(request)
        self._act(request)
        if request.action in self.mute:
            await asyncio.sleep(3600)
        return answer

    def _is_denied(self, what: action, plural: str) -> bool:
        if self.allowed is None:
            return (what, plural) in self.denied
        return (VERBS[what], plural) not in self.allowed

    def _check_precondition(self, request: Request) -> None:
        if request.name is None:
            return
        key = (PODS, NAMESPACE, request.name)
        wanted = request.data.get("preconditions", {}).get("uid")
        if key in self.objects and not self.objects[key].deleted and wanted:
            uid = self.objects[key].raw["metadata"]["uid"]
            if uid != wanted:
                message = f"the UID in the precondition ({wanted}) does not match {uid}"
                raise KubernetesError(409, "Conflict", message)

    def _act(self, request: Request) -> None:
        """What others in the cluster do after a request."""
        if request.name is None:
            return
        if request.action is action.FETCH and request.name == self.swap_after_look:
            self.swap_after_look = None
            self.objects[PODS, NAMESPACE, request.name].patch(
                {"metadata": {"uid": "uid-of-another"}}
            )
        if request.action is action.DELETE and request.name in self.lost:
            self.objects[PODS, NAMESPACE, request.name].create(pod(request.name))
        if request.action is action.DELETE and request.name in self.anew:
            anew = pod(request.name, uid="uid-of-the-new")
            self.objects[PODS, NAMESPACE, request.name].create(anew)

    def _listed(self, request: Request) -> web.Response:
        labels = dict(part.split("=") for part in request.params["labelSelector"].split(","))
        phases = {
            part.removeprefix("status.phase!=")
            for part in request.params.get("fieldSelector", "").split(",")
        }
        found = [
            stored.raw
            for (kind, namespace, _), stored in self.objects.items()
            if kind == PODS and namespace == request.namespace and not stored.deleted
        ]
        found = [
            one
            for one in found
            if labels.items() <= one["metadata"]["labels"].items()
            and one["status"]["phase"] not in phases
        ]
        return web.json_response(
            {"kind": "PodList", "items": found[: int(request.params["limit"])]}
        )


class ApiServer:
    """Serves on a free port in a thread of its own."""

    def __init__(self) -> None:
        self.cluster = Emulator()
        self.cluster.denied, self.cluster.mute, self.cluster.anew = set(), set(), set()
        self.cluster.lost = set()
        self.cluster.seen = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._up.wait(30)

    async def _serve(self) -> None:
        async with self.cluster, Server(self.cluster) as server:
            self.url = str(server.url).rstrip("/")
            self._up.set()
            await self._stop.wait()

    def put(self, what: dict[str, Any], of: resource = PODS) -> None:
        self.cluster.objects[of, NAMESPACE, what["metadata"]["name"]] = what

    def alive(self, name: str, of: resource = PODS) -> dict[str, Any] | None:
        """The object as it is now, None where it is deleted."""
        stored = self.cluster.objects[of, NAMESPACE, name]
        return None if stored.deleted else dict(stored.raw)

    def asked(self, what: action) -> list[Request]:
        return [request for request in self.cluster.seen if request.action is what]

    def kubeconfig(self, folder: Path, **user: Any) -> Path:  # noqa: ANN401 -- as in the file
        file = folder / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "lifeguard", "user": user or {"token": "secret-token"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "lifeguard"}}],
            "current-context": "here",
        }
        file.write_text(yaml.safe_dump(content))
        return file

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


def pod(
    name: str,
    *,
    uid: str = "uid-of-the-old",
    phase: str = "Running",
    owner: dict[str, Any] | None = REPLICA_SET,
    **metadata: Any,  # noqa: ANN401 -- as in JSON
) -> dict[str, Any]:
    """A pod with what is looked at."""
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "labels": {"app": "vllm", "backend": "gpu-a"},
            "ownerReferences": [owner] if owner else [],
            **metadata,
        },
        "spec": {"nodeName": "node-7"},
        "status": {"phase": phase},
    }


def json_of(request: Request) -> Any:  # noqa: ANN401 -- JSON
    return json.loads(request.body)
