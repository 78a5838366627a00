"""Translates a SAM template into CloudFormation, as the deployment does.

usage: translate.py TEMPLATE < CODE > CLOUDFORMATION
CODE is a JSON object: the s3:// address of each function's code by its logical
id; a function that it does not name keeps the address that it has, or gets one
that exists nowhere.
"""

import json
import sys

from cfnlint.decode import cfn_yaml
from samtranslator.translator.transform import transform


class NoManagedPolicies:
    """Each function has a role of its own, so that no managed policy is used."""

    def load(self):
        return {}


def main():
    template = json.loads(json.dumps(cfn_yaml.load(sys.argv[1])))
    code = json.load(sys.stdin)
    for name, resource in template["Resources"].items():
        if resource["Type"] == "AWS::Serverless::Function":
            has = str(resource["Properties"]["CodeUri"])
            default = has if has.startswith("s3://") else f"s3://code/{name}.zip"
            resource["Properties"]["CodeUri"] = code.get(name, default)
    json.dump(transform(template, {}, NoManagedPolicies()), sys.stdout, indent=1)


main()
