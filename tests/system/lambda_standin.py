"""A stand-in for AWS Lambda: Invoke, the Runtime API for the processes that functions are, and the endpoints that give
containers and instances their keys, on one port.

What it does as AWS does: it checks SigV4 signatures; starts an execution environment (a process) when none is idle, and
uses idle ones again; freezes an environment from its request for the next invocation until there is one; kills it at the
function's time-out; refuses payloads above 6 MB, unknown functions, and more invocations at once than allowed; tells
function errors. An environment calls the Runtime API at a loopback address of its own, by which it is known.

What can be ordered besides: slow cold starts, some time more after the time-out (for a machine that is too busy to leave in time), throttling, errors of the service, invocations that are delivered twice,
answers that get lost, refusals of what is delivered all the same, keys that expire. Processes may be killed and stopped. All that happens is counted, so that a test can ask whether it did.

For tests alone. Run by itself it serves one function until its standard input ends:

    lambda_standin.py FUNCTION TIMEOUT_S COMMAND...      prints its endpoint
"""
import collections
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

import sigv4

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, REGION = "AKIDSTANDIN", "secret/of+the+standin", "token-of-a-session==", "eu-test-1"
# of whoever invokes
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
               "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_SESSION_TOKEN": SESSION_TOKEN,
               "AWS_EC2_METADATA_DISABLED": "true"}
AUTHORIZATION, INSTANCE_TOKEN, ROLE = "Basic c3RhbmRpbg==", "token-of-the-instance==", "role-of-the-instance"
KEYS_OF_INSTANCE = "/latest/meta-data/iam/security-credentials/"
PAYLOAD_MAX = 6 * 1024 * 1024
RUNTIME = "/2018-06-01/runtime"
LATER_S = 3  # after which to ask again, as it says when it refuses what it delivers all the same
SCOPE = (REGION, "lambda")
INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")


# --- execution environments ---


class Invocation:
    def __init__(self, event, deadline_s):
        self.id = str(uuid.uuid4())
        self.event = event
        self.deadline = time.time() + deadline_s
        self.done = threading.Event()
        self.answer = b""
        self.error = None  # of the function

    def end(self, answer, error=None):
        if not self.done.is_set():
            self.answer, self.error = answer, error
            self.done.set()


def function_error(kind, message):
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


class Environment:
    """A process of the function. Idle ones are frozen, in the middle of their request for the next invocation."""

    def __init__(self, service, number):
        self.service, self.number = service, number
        self.address = f"127.9.{number // 200}.{number % 200 + 1}"
        self.next = None       # the invocation that it is to be given
        self.current = None    # the one that it has
        self.changed = threading.Condition()
        self.waits = self.frozen = self.dead = False
        self.process = None

    def start(self):
        """Its process may ask at once: the service must know it by now."""
        service = self.service
        variables = {**service.environment, "AWS_LAMBDA_RUNTIME_API": f"{self.address}:{service.port}", "_HANDLER": "bootstrap",
                     "AWS_LAMBDA_FUNCTION_NAME": service.function, "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST", "AWS_REGION": REGION,
                     "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(service.memory_mb), "TZ": ":UTC", "PATH": os.environ["PATH"]}
        with self.changed:
            self.process = subprocess.Popen(service.command, env=variables, stdin=subprocess.DEVNULL, stdout=service.log,
                                            stderr=service.log, cwd=service.folder)
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        code = self.process.wait()
        with self.changed:
            self.dead = True
            self.changed.notify_all()
            for one in (self.current, self.next):
                if one:
                    one.end(function_error("Runtime.ExitError", f"RequestId: {one.id} Error: Runtime exited with error: {code}"),
                            "Unhandled")
        self.service.forget(self)

    def give(self, invocation):
        with self.changed:
            self.next = invocation
            if self.dead:
                invocation.end(function_error("Runtime.ExitError", "the environment is dead"), "Unhandled")
            if self.frozen:
                self.frozen = False
                self.process.send_signal(signal.SIGCONT)
                self.service.count("thaw")
            self.changed.notify_all()

    def await_next(self):
        """The process asks for an invocation: it is frozen until there is one. None: it is dead."""
        with self.changed:
            self.waits = True
            if not self.next and not self.dead:
                self.service.count("freeze")
                self.frozen = True
                self.process.send_signal(signal.SIGSTOP)
            self.service.idle(self)
            while not self.next and not self.dead:
                self.changed.wait()
            self.waits = False
            self.current, self.next = self.next, None
            return None if self.dead else self.current

    def kill(self):
        with self.changed:
            if self.process:
                self.process.kill()


# --- the service ---


class Lambda:
    """Serves one function until `close`."""

    def __init__(self, command, function="worker", folder=None, timeout_s=900, concurrency=1000, cold_s=0.0, memory_mb=1769,
                 log=None, environment=None, session=True, grace_s=0.0):
        self.command, self.function, self.folder, self.timeout_s = command, function, folder, timeout_s
        self.concurrency, self.cold_s, self.memory_mb, self.session, self.grace_s = concurrency, cold_s, memory_mb, session, grace_s
        self.environment = environment or {}
        self.log = open(log, "ab") if log else subprocess.DEVNULL
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.orders = collections.Counter()  # what is to happen to the next so many invocations
        self.requests = []  # when, the worker's name, and an answer that was ordered or ""
        self.left = set()  # names of workers whose invocations have ended before they had to be ended
        self.idle_ones, self.all, self.numbers, self.running, self.most = [], {}, 0, 0, 0
        self.keys, self.expired, self.keys_last_s = (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN), set(), 3600
        self.valid = {ACCESS_KEY: (SECRET_KEY, SESSION_TOKEN)}
        self.closing = False
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                if not service.give_keys(self):
                    service.runtime(self, b"")

            def do_PUT(self):
                if not service.give_keys(self):
                    service.runtime(self, b"")

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path.startswith(RUNTIME):
                    service.runtime(self, body)
                else:
                    service.invoke(self, body)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def verify_request(self, request, client_address):
                return client_address[0].startswith("127.")

            def handle_error(self, request, client_address):
                service.count("dropped")

        self.server = Server(("0.0.0.0", 0), Handler)  # at every loopback address; nobody else is heard
        self.port = self.server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def order(self, what, times=1):
        with self.lock:
            self.orders[what] += times

    def ordered(self, what):
        with self.lock:
            if self.orders[what] <= 0:
                return False
            self.orders[what] -= 1
            self.counts[what] += 1
            return True

    def idle(self, environment):
        with self.lock:
            if environment.next is None and environment not in self.idle_ones and not environment.dead:
                self.idle_ones.append(environment)

    def forget(self, environment):
        with self.lock:
            self.all.pop(environment.address, None)
            if environment in self.idle_ones:
                self.idle_ones.remove(environment)

    def environment_for(self, invocation):
        with self.lock:
            environment = self.idle_ones.pop() if self.idle_ones else None
            number = self.numbers
            self.numbers += environment is None
        self.count("warm" if environment else "cold")
        if not environment:
            time.sleep(self.cold_s)  # a cold start is slow; nothing waits for it
            environment = Environment(self, number)
            with self.lock:
                self.all[environment.address] = environment
            environment.give(invocation)  # before it can ask: it is not idle then, and nobody else's
            environment.start()
        else:
            environment.give(invocation)
        return environment

    # --- keys ---

    def renew_keys(self, expire=True):
        """From now on endpoints give others; those that there were have expired."""
        with self.lock:
            if expire:
                self.expired.update(self.valid)
                self.valid.clear()
            self.keys = tuple(f"{key}2" for key in self.keys)
            self.valid[self.keys[0]] = self.keys[1:]

    def give_keys(self, handler):
        """Whether it is a request for keys, of which those are answered that have what they need."""
        asked, headers = (handler.command, handler.path), handler.headers
        told = headers.get("X-aws-ec2-metadata-token") == INSTANCE_TOKEN
        keys = dict(zip(("AccessKeyId", "SecretAccessKey", "Token"), self.keys))
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.keys_last_s))
        answer = json.dumps({"Code": "Success", **keys, "Expiration": until})
        text = {("GET", "/container"): headers.get("Authorization") == AUTHORIZATION and answer,
                ("PUT", "/latest/api/token"): headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit() and INSTANCE_TOKEN,
                ("GET", KEYS_OF_INSTANCE): told and ROLE + "\n",
                ("GET", KEYS_OF_INSTANCE + ROLE): told and answer}.get(asked)
        if text is None:
            return False
        self.count("keys given" if text == answer else "asked for keys")
        self.reply(handler, 200 if text else 401, (text or "{}").encode())
        return True

    # --- Invoke ---

    def refuse(self, handler, code, kind, message, headers=()):
        self.count(kind)
        self.reply(handler, code, json.dumps({"Type": "User", "Message": message}).encode(), [("x-amzn-ErrorType", kind), *headers])

    def reply(self, handler, code, body, headers=()):
        handler.send_response(code)
        for name, value in headers:
            handler.send_header(name, value)
        if code != 204:
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if code != 204:
            handler.wfile.write(body)

    def invoke(self, handler, body):
        path = urllib.parse.unquote(handler.path.partition("?")[0])
        match = INVOKE.fullmatch(path)
        wrong = sigv4.wrong_with("POST", handler.path, handler.headers, body, SCOPE, self.valid, self.expired, self.session)
        kind = handler.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if wrong:
            self.refuse(handler, *wrong)
        elif not match or match.group(1) != self.function:
            self.refuse(handler, 404, "ResourceNotFoundException", f"Function not found: {match and match.group(1)}")
        elif len(body) > PAYLOAD_MAX:
            self.refuse(handler, 413, "RequestTooLargeException", f"{len(body)} byte payload is too large")
        elif kind == "DryRun":
            self.count("dry")
            self.reply(handler, 204, b"")
        elif self.ordered("service error"):
            self.refuse(handler, 500, "ServiceException", "Internal service error")
        elif self.ordered("refused, and run"):
            self.note(body, "refused, and run")
            threading.Thread(target=self.finish, args=(body,), daemon=True).start()
            self.refuse(handler, 429, "TooManyRequestsException", "Rate Exceeded.", [("Retry-After", str(LATER_S))])
        elif self.ordered("throttle") or not self.enter():
            self.refuse(handler, 429, "TooManyRequestsException", "Rate Exceeded.", [("Retry-After", "0")])
        else:
            self.note(body, "")
            self.count("invoked by " + re.search("Credential=([^/]+)/", handler.headers["authorization"])[1])
            self.run(handler, body)

    @staticmethod
    def name_in(body):
        """The name of the worker that an event is for; None: it names none."""
        try:
            event = json.loads(body)
        except ValueError:
            return None
        return event.get("name") if isinstance(event, dict) else None

    def note(self, body, answer):
        with self.lock:
            self.requests.append((time.monotonic(), self.name_in(body), answer))

    def enter(self):
        with self.lock:
            if self.running >= self.concurrency:
                return False
            self.running += 1
            self.most = max(self.most, self.running)
            return True

    def run(self, handler, body):
        try:
            invocation = self.finish(body)
        finally:
            with self.lock:
                self.running -= 1
        if self.closing or self.ordered("lost answer"):
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        headers = [("X-Amz-Executed-Version", "$LATEST"), ("X-Amzn-RequestId", invocation.id)]
        if invocation.error:
            self.count("function error")
            headers.append(("X-Amz-Function-Error", invocation.error))
        self.reply(handler, 200, invocation.answer, headers)

    def finish(self, body):
        """Delivers the event, once or twice, and waits for what comes of it."""
        invocation = Invocation(body, self.timeout_s)
        environment = self.environment_for(invocation)
        self.count("invoked")
        if self.ordered("twice"):
            threading.Thread(target=self.finish, args=(body,), daemon=True).start()
        if invocation.done.wait(self.timeout_s):
            self.count("in time")
        elif not invocation.done.wait(self.grace_s):
            self.count("timed out")
            invocation.end(function_error("Sandbox.Timedout", f"Task timed out after {self.timeout_s:.2f} seconds"), "Unhandled")
            environment.kill()
            return invocation
        with self.lock:
            self.left.add(self.name_in(body))
        return invocation

    # --- the Runtime API ---

    def runtime(self, handler, body):
        with self.lock:
            environment = self.all.get(handler.connection.getsockname()[0])
        if not environment:
            self.reply(handler, 403, b"{}")
        elif handler.command == "GET" and handler.path == RUNTIME + "/invocation/next":
            invocation = environment.await_next()
            if invocation:
                self.reply(handler, 200, invocation.event,
                           [("Lambda-Runtime-Aws-Request-Id", invocation.id),
                            ("Lambda-Runtime-Deadline-Ms", str(int(invocation.deadline * 1000))),
                            ("Lambda-Runtime-Invoked-Function-Arn", f"arn:aws:lambda:{REGION}:1:function:{self.function}"),
                            ("Lambda-Runtime-Trace-Id", "Root=1-0-0;Sampled=0")])
        elif handler.command == "POST" and handler.path == RUNTIME + "/init/error":
            self.count("init error")
            if environment.next:
                environment.next.end(body, "Unhandled")
            self.reply(handler, 202, b'{"status":"OK"}')
        else:
            self.take_answer(handler, environment, body)

    def take_answer(self, handler, environment, body):
        match = re.fullmatch(RUNTIME + "/invocation/([^/]+)/(response|error)", handler.path)
        if handler.command != "POST" or not match or not environment.current or match.group(1) != environment.current.id:
            self.reply(handler, 400, json.dumps({"errorType": "InvalidRequestID", "errorMessage": "Invalid request ID"}).encode())
        elif len(body) > PAYLOAD_MAX:
            environment.current.end(function_error("Function.ResponseSizeTooLarge", "too large"), "Unhandled")
            self.reply(handler, 413, b"{}")
        else:
            current, environment.current = environment.current, None
            self.reply(handler, 202, b'{"status":"OK"}')
            current.end(body, "Unhandled" if match.group(2) == "error" else None)

    def close(self):
        self.closing = True
        for environment in list(self.all.values()):
            environment.kill()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()


def main():
    with Lambda(sys.argv[3:], function=sys.argv[1], timeout_s=float(sys.argv[2])) as service:
        print(service.endpoint, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
