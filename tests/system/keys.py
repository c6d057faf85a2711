#!/usr/bin/env python3
"""The store of keys on real etcds: what every store does (tests/unit/cloud/keys.c), members that are killed, users, certificates, and what is none."""
import http.server
import json
import os
import subprocess
import threading
import time

from etcd import Etcd, Unavailable, free_ports
from harness import Cases, Skipped, check, equal, wait_until

cases = Cases(kind="waits", job="train")


def program(bench):
    path = os.path.join(os.path.dirname(bench.culm), "../../tests/unit/cloud/unit_cloud_keys")
    if not os.path.exists(path):
        raise Skipped("tests/unit/cloud/unit_cloud_keys is not built")
    return path


def serve(bench, *args, **more):
    try:
        return Etcd(bench.path("etcd"), *args, **more)
    except Unavailable as reason:
        raise Skipped(str(reason)) from None


def suite(bench, place, env=None):
    ended = subprocess.run([program(bench)], env={**os.environ, **(env or {}), "CULM_TEST_KEYS": place}, capture_output=True, text=True, check=False)
    equal(ended.returncode, 0, f"exit code; {ended.stdout[-500:]} {ended.stderr[-1200:]}")


def tried(bench, place, env=None):
    """The status and the text of one question, and how long it took."""
    begin = time.monotonic()
    ended = subprocess.run([program(bench), "try"], env={**os.environ, **(env or {}), "CULM_TEST_KEYS": place}, capture_output=True, text=True,
                           check=True)
    status, _, text = ended.stdout.strip().partition(" ")
    return status, text, time.monotonic() - begin


def one(bench):
    with serve(bench) as etcd:
        suite(bench, etcd.place("runs"))
        check(b"culm" not in etcd.post("kv/range", '{"key":"AA==","range_end":"AA==","keys_only":true}'), "keys outside of the prefix")


def three(bench):
    """One of three is down from the start, and nobody listens where the first address is; then all are, and come back."""
    with serve(bench, 3) as etcd:
        dead = f"127.0.0.1:{free_ports(1)[0]}"
        etcd.kill(1)
        wait_until(lambda: tried(bench, etcd.place("runs", dead))[0] == "ok", 20, "an answer of those that are left")
        suite(bench, etcd.place("runs", dead))
        etcd.kill(0)  # one of three cannot decide anything
        status, text, took = tried(bench, etcd.place("runs", dead))
        equal(status, "again", f"what it says: {text}")
        check(took < 6, f"it took {took} s to say so")
        etcd.kill(2)
        status, text, took = tried(bench, etcd.place("runs", dead))
        equal(status, "again", f"what it says: {text}")
        check("connect" in text and took < 4, f"{text!r} after {took} s")
        for number in range(3):
            etcd.start(number)
        etcd.wait()
        wait_until(lambda: tried(bench, etcd.place("runs", dead))[0] == "ok", 20, "an answer")


def compacted(bench):
    """What is watched from a revision that is no more may have changed: whoever waits looks."""
    with serve(bench) as etcd:
        for number in range(5):
            etcd.post("kv/put", '{"key":"Y3VsbS93YWl0L2E=","value":"eA=="}')
        revision = json.loads(etcd.post("kv/range", '{"key":"eA=="}'))["header"]["revision"]
        etcd.post("kv/compaction", json.dumps({"revision": revision, "physical": True}))
        equal(subprocess.run([program(bench), "wait", "1"], env={**os.environ, "CULM_TEST_KEYS": etcd.place("culm")}, capture_output=True, text=True,
                             check=True).stdout, "ok changed\n", "a wait from revision 1")
        equal(subprocess.run([program(bench), "wait", revision], env={**os.environ, "CULM_TEST_KEYS": etcd.place("culm")}, capture_output=True,
                             text=True, check=True).stdout, "ok nothing\n", "a wait from the newest")
        suite(bench, etcd.place("runs"))


def users(bench):
    """Passwords are hashed as cheaply as etcd can: it takes as long as half a question may, otherwise, and longer on a busy machine."""
    with serve(bench, words=("--bcrypt-cost", "4")) as etcd:
        etcd.post("auth/user/add", '{"name":"root","password":"secret"}')
        etcd.post("auth/role/add", '{"name":"root"}')
        etcd.post("auth/user/grant", '{"user":"root","role":"root"}')
        etcd.post("auth/user/add", '{"name":"nobody","password":"pw"}')
        etcd.post("auth/enable", "{}")
        place = etcd.place("runs")
        suite(bench, place, {"CULM_ETCD_USER": "root", "CULM_ETCD_PASSWORD": "secret"})
        for env, expected in (({"CULM_ETCD_USER": "root", "CULM_ETCD_PASSWORD": "wrong"}, "authentication failed"), ({}, "user name is empty"),
                              ({"ETCDCTL_USER": "nobody", "ETCDCTL_PASSWORD": "pw"}, "permission denied")):
            status, text, _ = tried(bench, place, env)
            equal((status, expected in text), ("config", True), f"what it says with {env}: {text}")
            check("wrong" not in text and "secret" not in text, "a password is shown")


def certificates(bench):
    cert, key = bench.path("cert.pem"), bench.path("key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    with serve(bench, scheme="https", words=("--cert-file", cert, "--key-file", key)) as etcd:
        wait_until(lambda: tried(bench, etcd.place("runs"), {"CULM_ETCD_CACERT": cert})[0] == "ok", 30, "an answer")
        suite(bench, etcd.place("runs"), {"CULM_ETCD_CACERT": cert})
        status, text, _ = tried(bench, etcd.place("runs"))
        equal(status, "config", f"what it says without the certificate: {text}")
        status, text, _ = tried(bench, etcd.place("runs").replace("etcds:", "etcd:"))
        check(status != "ok", "it talks to a port of TLS without TLS")


class Other(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        text = self.server.text
        self.send_response(self.server.code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def something_else(bench):
    """Whatever answers there that is no etcd is called that, in one line."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"etcd://127.0.0.1:{server.server_address[1]}"
    for code, text, expected in ((200, b"<html>", "format"), (404, b"not here", "format"), (200, b"{}", "format"),
                                 (200, b'{"header":{"revision":"x"}}', "format"), (503, b"busy", "again"),
                                 (200, b'{"header":{"revision":"5"},"responses":[{"response_range":{"kvs":[{"key":"!"}]}}]}', "format"),
                                 (200, b'{"header":{"revision":"5"},"responses":[{"response_range":{"kvs":[{"key":"Y3Vs","value":"eA=="}]}}]}', "format"),
                                 (500, b'{"error":"\x1b[31m","code":2,"message":"a\x1b]b"}', "again"),
                                 (200, b'{"header":{"revision":"5"}}', "format"),
                                 (200, b'{"header":{"revision":"5"},"responses":[{"response_range":{}}]}', "ok")):
        server.code, server.text = code, text
        status, said, _ = tried(bench, place)
        equal(status, expected, f"what becomes of {code} {text!r}: {said}")
        check("\x1b" not in said, "control characters of an answer are shown")
    server.shutdown()


cases.add("one member", one, seconds=8)
cases.add("three members, of which some are killed", three, seconds=15)
cases.add("a revision that was compacted away", compacted, seconds=8)
cases.add("users and passwords", users, seconds=8)
cases.add("certificates", certificates, seconds=8)
cases.add("something else than etcd", something_else, seconds=2)

if __name__ == "__main__":
    cases.run()
