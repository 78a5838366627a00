#!/usr/bin/env python3
"""A stand-in of key services, with which sops encrypts and decrypts the corpus.

    services.py PORT

It answers as HashiCorp Vault's transit engine, AWS KMS and Google Cloud KMS do. It protects nothing: a ciphertext is the plaintext in
base64, backwards. Vault's token is "corpus". AWS KMS refuses another encryption context than that of the encryption.
"""
import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>role</AccessKeyId><SecretAccessKey>role</SecretAccessKey><SessionToken>role</SessionToken>
<Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


def reverse(text):
    return text[::-1]


class Services(BaseHTTPRequestHandler):
    def do_PUT(self):
        content = self.rfile.read(int(self.headers["content-length"]))
        if content.startswith(b"Action=AssumeRole"):
            return self.send("text/xml", 200, ROLE.encode())
        body = json.loads(content)
        target = self.headers.get("x-amz-target")
        if target:
            return self.aws(target, body)
        if self.path.split("?")[0].endswith((":encrypt", ":decrypt")):
            return self.google(body)
        self.vault(body)

    do_POST = do_PUT

    def vault(self, body):
        if self.headers.get("x-vault-token") != "corpus":
            return self.answer(403, {"errors": ["permission denied"]})
        if "/encrypt/" in self.path:
            data = {"ciphertext": "vault:v1:" + reverse(body["plaintext"])}
        elif "/decrypt/" in self.path:
            data = {"plaintext": reverse(body["ciphertext"].removeprefix("vault:v1:"))}
        else:
            return self.answer(404, {"errors": []})
        self.answer(200, {"data": data})

    def aws(self, target, body):
        context = json.dumps(body.get("EncryptionContext", {}), sort_keys=True)
        key = body["KeyId"]
        if target == "TrentService.Encrypt":
            blob = json.dumps([context, reverse(body["Plaintext"])])
            return self.answer(200, {"CiphertextBlob": base64.b64encode(blob.encode()).decode(), "KeyId": key})
        sealed, text = json.loads(base64.b64decode(body["CiphertextBlob"]))
        if sealed != context:
            return self.answer(400, {"__type": "InvalidCiphertextException"})
        self.answer(200, {"Plaintext": reverse(text), "KeyId": key})

    def google(self, body):
        if "plaintext" in body:
            text = base64.b64encode(reverse(body["plaintext"]).encode()).decode()
            return self.answer(200, {"name": "key", "ciphertext": text})
        text = reverse(base64.b64decode(body["ciphertext"]).decode())
        self.answer(200, {"plaintext": text})

    def answer(self, status, body):
        self.send("application/json", status, json.dumps(body).encode())

    def send(self, kind, status, content):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Services).serve_forever()
