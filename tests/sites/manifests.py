"""Checks Kubernetes manifests against each other and against the programs.

    manifests.py [--tls] BIN_FOLDER FILE...

With --tls they are those of deploy/kubernetes-tls.
"""

import re
import subprocess
import sys

import yaml


def templates(objects):
    """(name, pod template) of everything that makes pods."""
    for thing in objects:
        spec = thing.get("spec", {})
        if "template" in spec:
            yield thing["metadata"]["name"], spec["template"]
        for role, replicas in spec.get("mpiReplicaSpecs", {}).items():
            yield f"{thing['metadata']['name']} {role}", replicas["template"]


def fits(labels, selector):
    return all(labels.get(key) == value for key, value in selector.items())


def check_pod(name, template):
    volumes = {v["name"] for v in template["spec"].get("volumes", [])}
    for container in template["spec"]["containers"]:
        ports = {p["name"] for p in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports, (name, probe)
        mounts = {m["name"] for m in container.get("volumeMounts", [])}
        assert mounts <= volumes, (name, mounts, volumes)
        # Kubernetes leaves $(NAME) as it is unless NAME was defined before.
        known = set()
        for variable in container.get("env", []):
            used = re.findall(r"\$\((\w+)\)", variable.get("value", ""))
            assert set(used) <= known, (name, variable)
            known.add(variable["name"])


def check_tls(name, template, tls):
    """Everything speaks TLS, or nothing does."""
    volumes = {v["name"]: v for v in template["spec"].get("volumes", [])}
    for container in template["spec"]["containers"]:
        words = [*container.get("command", []), *container.get("args", [])]
        values = [v.get("value", "") for v in container.get("env", [])]
        files = [
            word.split("=")[-1] for word in words + values
            if "/etc/ucudnn-tls/" in word
        ]
        assert bool(files) == tls or name == "ucudnn-train Worker", (name, files)
        assert not (tls and "--insecure" in words), name
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            scheme = container.get(probe, {}).get("httpGet", {}).get("scheme")
            if probe in container:
                assert (scheme == "HTTPS") == tls, (name, probe)
        # The launcher's files are those of the workers.
        mounted = [
            m for m in container.get("volumeMounts", [])
            if m["mountPath"] == "/etc/ucudnn-tls"
        ]
        assert bool(mounted) == (tls and name != "ucudnn-train Launcher"), name
        for mount in mounted:
            secret = volumes[mount["name"]]["secret"]
            assert secret["defaultMode"] & 0o27 == 0, (name, secret)
            assert template["spec"]["securityContext"]["fsGroup"] == 65532, name


def check_options(bin_folder, template):
    """Every --option that a container passes to one of our programs exists."""
    for container in template["spec"]["containers"]:
        words = [*container.get("command", []), *container.get("args", [])]
        at = next((i for i, w in enumerate(words) if w.startswith("ucudnn-")), None)
        if at is None:
            continue
        commands = [w for w in words[at + 1 :] if not w.startswith("-")]
        for word in words[at + 1 :]:
            option = word.split("=")[0]
            if not option.startswith("--"):
                continue
            known = subprocess.run(
                [f"{bin_folder}/{words[at]}", "complete-words", *commands, option],
                capture_output=True, text=True, check=True,
            ).stdout.split()
            assert option in known, (words[at], option, known)


def main():
    tls = sys.argv[1] == "--tls"
    bin_folder, *files = sys.argv[2:] if tls else sys.argv[1:]
    objects = [o for f in files for o in yaml.safe_load_all(open(f)) if o]
    kinds = sorted(o["kind"] for o in objects)
    print(" ".join(kinds))
    pods = dict(templates(objects))
    assert len(pods) == 4, pods.keys()
    for name, template in pods.items():
        check_pod(name, template)
        check_options(bin_folder, template)
        check_tls(name, template, tls)
    labels = [t.get("metadata", {}).get("labels", {}) for t in pods.values()]
    ports = {
        p["name"] for t in pods.values()
        for c in t["spec"]["containers"] for p in c.get("ports", [])
    }
    services = [o for o in objects if o["kind"] == "Service"]
    for thing in objects:
        kind, spec = thing["kind"], thing["spec"]
        assert thing["metadata"].get("namespace") == "ucudnn", thing["metadata"]
        if kind in ("Deployment", "DaemonSet", "PodDisruptionBudget"):
            selector = spec["selector"]["matchLabels"]
            assert any(fits(of, selector) for of in labels), (kind, selector)
        if kind == "Service":
            assert any(fits(of, spec["selector"]) for of in labels), spec
            assert {p["targetPort"] for p in spec["ports"]} <= ports, spec
        if kind == "NetworkPolicy":
            selector = spec["podSelector"]["matchLabels"]
            assert any(fits(of, selector) for of in labels), selector
            for rule in spec.get("ingress", []):
                assert {p["port"] for p in rule["ports"]} <= ports, rule
        if kind == "ServiceMonitor":
            selector = spec["selector"]["matchLabels"]
            found = [s for s in services if fits(s["metadata"]["labels"], selector)]
            assert found, selector
            served = {p["name"] for s in found for p in s["spec"]["ports"]}
            assert {e["port"] for e in spec["endpoints"]} <= served, spec
            schemes = {e.get("scheme", "http") for e in spec["endpoints"]}
            assert schemes == {"https" if tls else "http"}, spec


main()
