"""A real HTTP server on 127.0.0.1 that scores rows and fails as it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np


def score(row):
    """The model: answers depend on the row only."""
    x = [float(v) if not isinstance(v, str) else float(len(v)) for v in row]
    return x[0] * x[1] + sum(x[2:])


class Endpoint:
    """Serves while it is a context; ``faults`` names what happens to the next requests.

    ``rows`` counts every row that arrived whole, ``seen`` the distinct ones, ``paths`` and
    ``headers`` what came with them.
    """

    def __init__(self, faults=(), *, slow=0.0, answer=score, names=None):
        self.faults, self.slow, self.answer, self.names = list(faults), slow, answer, names
        self.rows = self.requests = 0
        self.seen, self.paths, self.headers, self.times = [], [], [], []
        self.at_once = self.most_at_once = self.connections = 0
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                with owner.lock:
                    owner.connections += 1

            def do_POST(self):
                owner.serve(self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def serve(self, request):
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        rows = rows_of(body)
        with self.lock:
            self.requests += 1
            self.rows += len(rows)
            self.seen += [tuple(row) for row in rows]
            self.paths.append(request.path)
            self.headers.append(dict(request.headers))
            self.times.append(time.monotonic())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            fault = self.faults.pop(0) if self.faults else ""
        try:
            time.sleep(self.slow)
            self.reply(request, rows, fault, kserve="/v2/" in request.path)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client had enough
        finally:
            with self.lock:
                self.at_once -= 1

    def reply(self, request, rows, fault, *, kserve):
        if fault == "drop":
            request.close_connection = True
            request.connection.shutdown(2)
            return
        if fault.startswith("sleep"):
            time.sleep(float(fault.split()[1]))
        if fault[:1].isdigit():
            status, _, after = fault.partition(" ")
            text = f"no luck\nwith {request.headers.get('Authorization')}".encode()
            if status == "418":
                text = f"you said {request.headers.get('Authorization')}".encode()
            headers = {"Retry-After": after} if after else {}
            self.send(request, int(status), text, headers)
            return
        y = [self.answer(row) for row in rows]
        y = y[:-1] if fault == "short" else y
        if kserve:
            flat = np.asarray(y)
            out = {"name": "y", "shape": flat.shape, "datatype": "FP64"}
            answer = {"outputs": [{**out, "data": flat.ravel().tolist()}]}
        elif self.names:
            answer = {"predictions": [dict(zip(self.names, v, strict=True)) for v in y]}
        else:
            answer = {"predictions": y}
        body = json.dumps(answer).encode()
        if fault == "html":
            body = b"<html>Bad gateway</html>"
        if fault == "cut":
            self.send(request, 200, body[: len(body) // 2], {"Content-Length": str(len(body))})
            request.close_connection = True
            return
        if fault == "close":
            request.close_connection = True
        self.send(request, 200, body, {"Connection": "close"} if fault == "close" else {})

    def send(self, request, status, body, headers):
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)


def rows_of(body):
    if "dataframe_split" in body:
        return body["dataframe_split"]["data"]
    if "parameters" in body:
        return list(zip(*(column["data"] for column in body["inputs"]), strict=True))
    if isinstance(body["inputs"][0], dict):
        one = body["inputs"][0]
        return np.reshape(one["data"], one["shape"]).tolist()
    return body["inputs"]
