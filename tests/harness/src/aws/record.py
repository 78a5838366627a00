"""Runs MiniStack, and records which calls of roles it decided.

usage: record.py CALLS
Appends a JSON object to the file CALLS for each different role, action, resource and answer. Calls
of the account's root user are not decided, so they are not recorded.
"""

import json
import sys

from ministack.core import iam_evaluator

path = sys.argv.pop()
enforce_policies, evaluate_policies = iam_evaluator.enforce, iam_evaluator.evaluate
contexts = []
seen = set()


def evaluate(context, policies, *limits):
    contexts.append(context)
    return evaluate_policies(context, policies, *limits)


def enforce(*arguments, **named):
    contexts.clear()
    refused = enforce_policies(*arguments, **named)
    if contexts and ":assumed-role/" in contexts[0].principal_arn:
        record(contexts[0], refused is None)
    return refused


def record(context, allowed):
    prefix = context.service_context.get("s3:prefix")
    prefix = prefix[0] if isinstance(prefix, list) else prefix
    call = (context.principal_arn, context.action, context.resource_arn, prefix or "", allowed)
    if call not in seen:
        seen.add(call)
        names = ("principal", "action", "resource", "prefix", "allowed")
        with open(path, "a") as file:
            file.write(json.dumps(dict(zip(names, call))) + "\n")


iam_evaluator.evaluate, iam_evaluator.enforce = evaluate, enforce

from ministack.app import main  # noqa: E402

main()
