#!/usr/bin/env python3
"""A stand-in of HashiCorp Vault's transit engine, with which sops encrypts and decrypts the corpus.

    vault.py PORT

It protects nothing: a ciphertext is the plaintext, backwards. The token is "corpus".
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Transit(BaseHTTPRequestHandler):
    def do_PUT(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("x-vault-token") != "corpus":
            return self.answer(403, {"errors": ["permission denied"]})
        if "/encrypt/" in self.path:
            data = {"ciphertext": "vault:v1:" + body["plaintext"][::-1]}
        elif "/decrypt/" in self.path:
            data = {"plaintext": body["ciphertext"].removeprefix("vault:v1:")[::-1]}
        else:
            return self.answer(404, {"errors": []})
        self.answer(200, {"data": data})

    do_POST = do_PUT

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Transit).serve_forever()
