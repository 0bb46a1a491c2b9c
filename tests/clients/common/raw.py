"""Requests signed and sent by hand, for what the SDK refuses to send or to show."""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import urllib.parse
from dataclasses import dataclass

from cases import settings_of

MINIMAL = "application/json;odata=minimalmetadata"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self):
        return json.loads(self.body)

    def error(self):
        """Status, code and first line of the message of an OData error."""
        error = self.json()["odata.error"]
        return self.status, error["code"], error["message"]["value"].split("\n")[0]


class Raw:
    def __init__(self, connection):
        self.settings = settings_of(connection)
        self.account = self.settings["AccountName"]
        self.key = base64.b64decode(self.settings["AccountKey"])
        self.endpoint = urllib.parse.urlsplit(self.settings["TableEndpoint"])

    def request(self, method, path, body=None, **headers):
        """Sends one request; `path` starts after the account, percent-encoded as it shall be sent.

        Header names are given with `_` for `-`; a value of None leaves a default header out.
        """
        target = self.endpoint.path.rstrip("/") + path
        sent = {
            "x-ms-version": "2019-02-02",
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "Accept": MINIMAL,
            "DataServiceVersion": "3.0",
        }
        if body is not None:
            sent["Content-Type"] = "application/json"
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
            body = body.encode() if isinstance(body, str) else body
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        sent = {name: value for name, value in sent.items() if value is not None}
        sent["Authorization"] = self.authorization(method, target, sent)
        link = http.client.HTTPConnection(self.endpoint.hostname, self.endpoint.port, timeout=30)
        try:
            link.request(method, target, body, sent)
            response = link.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            link.close()

    def authorization(self, method, target, headers):
        path, _, query = target.partition("?")
        comp = urllib.parse.parse_qs(query).get("comp")
        resource = f"/{self.account}{path}" + (f"?comp={comp[0]}" if comp else "")
        lines = [method, "", headers.get("Content-Type", ""), headers["x-ms-date"], resource]
        digest = hmac.digest(self.key, "\n".join(lines).encode(), hashlib.sha256)
        return f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"

    def batch(self, *operations):
        """Posts one change set; an operation is (method, path, body or None, headers)."""
        parts = []
        for method, path, body, headers in operations:
            base = self.endpoint.geturl().rstrip("/")
            lines = ["--changeset_1", "Content-Type: application/http"]
            lines += ["Content-Transfer-Encoding: binary", "", f"{method} {base}{path} HTTP/1.1"]
            lines += [f"Accept: {MINIMAL}", "DataServiceVersion: 3.0"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if body is not None:
                lines += ["Content-Type: application/json", "", json.dumps(body)]
            else:
                lines += ["", ""]
            parts.append("\r\n".join(lines) + "\r\n")
        inside = "".join(parts) + "--changeset_1--\r\n"
        outer = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
        return self.request(
            "POST",
            "/$batch",
            outer + inside + "--batch_1--\r\n",
            Content_Type="multipart/mixed; boundary=batch_1",
        )


def batch_error(answer):
    """Status, code and first line of the message of the one part of a failed batch."""
    head, _, rest = answer.body.decode().partition("HTTP/1.1 ")
    status = int(rest[:3])
    body = rest[rest.index("{") : rest.rindex("}") + 1]
    error = json.loads(body)["odata.error"]
    return status, error["code"], error["message"]["value"].split("\n")[0]
