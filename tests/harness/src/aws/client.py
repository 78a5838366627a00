"""Calls AWS for the tests, one JSON line in, one JSON line out.

A request is {"service", "operation", "parameters"}, named as botocore names
them; bytes travel as {"$base64": TEXT}, a file as {"$file": PATH}. An answer is
{"result"} or {"error": {"code", "message"}}.
"""

import base64
import json
import sys

import botocore.exceptions
import botocore.session


def unpack(value):
    if isinstance(value, dict):
        if list(value) == ["$base64"]:
            return base64.b64decode(value["$base64"])
        if list(value) == ["$file"]:
            with open(value["$file"], "rb") as file:
                return file.read()
        return {key: unpack(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unpack(item) for item in value]
    return value


def pack(value):
    if hasattr(value, "read"):
        value = value.read()
    if isinstance(value, (bytes, bytearray)):
        return {"$base64": base64.b64encode(value).decode()}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def main():
    session = botocore.session.get_session()
    clients = {}
    for line in sys.stdin:
        request = json.loads(line)
        service = request["service"]
        if service not in clients:
            clients[service] = session.create_client(service)
        try:
            call = getattr(clients[service], request["operation"])
            result = call(**unpack(request["parameters"]))
            result.pop("ResponseMetadata", None)
            answer = {"result": result}
        except botocore.exceptions.ClientError as error:
            found = error.response["Error"]
            answer = {"error": {"code": found["Code"], "message": found["Message"]}}
        except Exception as error:
            answer = {"error": {"code": type(error).__name__, "message": str(error)}}
        print(json.dumps(answer, default=pack), flush=True)


main()
