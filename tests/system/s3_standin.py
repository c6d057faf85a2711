"""A stand-in for Amazon S3: put, get, list and delete of objects in one bucket, addressed by path.

What it does as S3 does: it checks SigV4 signatures, and that a body has the hash that was signed; If-None-Match: *; listings in
pages, with tokens to go on with; its codes of errors, in XML.

What can be ordered besides: that every n-th request fails (in turn: an error of the server, a request to be slower, a connection that is
closed before anything is done, and one that is closed after it was done, unanswered); to be away; to hold puts of some
names; to refuse; not to know If-None-Match; keys that expire. All that happens is counted.

For tests alone. Run by itself it serves until its standard input ends:

    s3_standin.py        prints its endpoint
"""
import collections
import hashlib
import http.server
import os
import re
import socket
import sys
import threading
import urllib.parse
from xml.sax.saxutils import escape

import sigv4

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, REGION, BUCKET = "AKIDSTANDIN", "secret/of+the+standin", "token/of+a=session==", "eu-test-1", "bucket.of-tests"
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
               "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_SESSION_TOKEN": SESSION_TOKEN,
               "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}
FAILURES = ["error", "slow down", "dropped", "unanswered"]


class S3:
    """Serves one bucket until `close`."""

    def __init__(self, every=0, page=1000, conditions=True):
        self.objects, self.lock, self.changed = {}, threading.Lock(), threading.Condition()
        self.every, self.page, self.conditions = every, page, conditions
        self.valid, self.expired = {ACCESS_KEY: (SECRET_KEY, SESSION_TOKEN)}, set()
        self.away = self.denied = False
        self.held = None  # requests that match, such as "PUT objects/00000020-", wait
        self.waiting = 0
        self.requests, self.counts = 0, collections.Counter()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def serve(self):
                service.serve(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            do_GET = do_PUT = do_DELETE = serve

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                service.count("broken")

        self.server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.hold(None)
        self.server.shutdown()
        self.server.server_close()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def hold(self, pattern):
        with self.changed:
            self.held = re.compile(pattern) if pattern else None
            self.changed.notify_all()

    def names(self, prefix=""):
        with self.lock:
            return sorted(name for name in self.objects if name.startswith(prefix))

    def expire_keys(self, access, secret, token):
        """Those that there were have expired; these are valid."""
        with self.lock:
            self.expired.update(self.valid)
            self.valid = {access: (secret, token)}

    # --- a request ---

    def serve(self, handler, body):
        with self.lock:
            self.requests += 1
            failure = FAILURES[self.requests // self.every % len(FAILURES)] if self.every and self.requests % self.every == 0 else None
        if self.away:
            return self.drop(handler)
        if failure:
            self.count(failure)
        if failure == "dropped":
            return self.drop(handler)
        if failure in ("error", "slow down"):
            return self.refuse(handler, *((500, "InternalError") if failure == "error" else (503, "SlowDown")), "it was ordered")
        answer = self.answer(handler, body)
        return self.drop(handler) if failure or answer is None else self.reply(handler, *answer)

    def answer(self, handler, body):
        wrong = sigv4.wrong_with(handler.command, handler.path, handler.headers, body, (REGION, "s3"), self.valid, self.expired)
        if wrong:
            code = {"ExpiredTokenException": "ExpiredToken", "InvalidSignatureException": "SignatureDoesNotMatch"}.get(wrong[1], "InvalidAccessKeyId")
            return self.error(400 if code == "ExpiredToken" else 403, code, wrong[2])
        if hashlib.sha256(body).hexdigest() != handler.headers.get("x-amz-content-sha256"):
            return self.error(400, "XAmzContentSHA256Mismatch", "The provided header does not match what was computed.")
        path, _, query = handler.path.partition("?")
        bucket, _, name = urllib.parse.unquote(path).lstrip("/").partition("/")
        if bucket != BUCKET:
            return self.error(404, "NoSuchBucket", "The specified bucket does not exist")
        if self.denied and handler.command != "GET":
            return self.error(403, "AccessDenied", "Access Denied")
        with self.changed:
            self.waiting += 1
            while self.held and self.held.search(f"{handler.command} {name}"):
                self.changed.wait()
            self.waiting -= 1
        if not name:
            return self.list(dict(urllib.parse.parse_qsl(query)))
        return {"GET": self.get, "PUT": self.put, "DELETE": self.delete}[handler.command](name, body, handler.headers)

    def get(self, name, _body, _headers):
        with self.lock:
            data = self.objects.get(name)
        return self.error(404, "NoSuchKey", "The specified key does not exist.") if data is None else (200, data)

    def put(self, name, body, headers):
        fresh = headers.get("If-None-Match") == "*"
        if fresh and not self.conditions:
            return self.error(501, "NotImplemented", "A header you provided implies functionality that is not implemented.")
        with self.lock:
            if fresh and name in self.objects:
                return self.error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
            self.objects[name] = body
            self.counts["fresh" if fresh else "put"] += 1
        return 200, b""

    def delete(self, name, _body, _headers):
        with self.lock:
            self.objects.pop(name, None)
            self.counts["deleted"] += 1
        return 204, b""

    def list(self, query):
        if query.get("list-type") != "2":
            return self.error(501, "NotImplemented", "only listings of version 2")
        after = query.get("continuation-token", "")
        after = after.removeprefix("<after>&").removesuffix("/+=")
        names = [name for name in self.names(query.get("prefix", "")) if name > after]
        size = min(self.page, int(query.get("max-keys", 1000)))
        more = len(names) > size
        self.count("pages")
        keys = "".join(f"<Contents><Key>{escape(name)}</Key><Size>1</Size></Contents>" for name in names[:size])
        token = f"<NextContinuationToken>{escape(f'<after>&{names[size - 1]}/+=')}</NextContinuationToken>" if more else ""
        return 200, (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{BUCKET}</Name>{keys}'
                     f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}</ListBucketResult>").encode()

    # --- answers ---

    @staticmethod
    def error(http, code, message):
        return http, f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>'.encode()

    def refuse(self, handler, http, code, message):
        self.reply(handler, *self.error(http, code, message))

    def reply(self, handler, http, body):
        try:
            handler.send_response(http)
            if http != 204:
                handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            if http != 204:
                handler.wfile.write(body)
        except OSError:
            self.count("broken")

    @staticmethod
    def drop(handler):
        handler.close_connection = True
        try:
            handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


if __name__ == "__main__":
    with S3() as served:
        print(served.endpoint, flush=True)
        sys.stdin.read()
