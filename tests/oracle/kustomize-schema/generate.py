#!/usr/bin/env python3
"""Writes shared/kustomize/src/schema/table.rs from the OpenAPI documents that kustomize v5.8.2 carries.

    python3 generate.py "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kustomize/kyaml)/openapi" > shared/kustomize/src/schema/table.rs

with a go.mod that requires sigs.k8s.io/kustomize/kyaml v0.21.2. Only what decides a strategic merge is kept: which fields
are maps or lists, where they lead, and which lists merge by which keys; and for each kind, whether it is namespaced.
Definitions that are the same in that become one.
"""
import gzip
import json
import os
import re
import sys

ROOT = sys.argv[1]
BUNDLE = "kubernetesapi/data/kubernetes-openapi-union-v1.21.2.bundle-v1.json.gz"


def load():
    with gzip.open(os.path.join(ROOT, BUNDLE)) as file:
        bundle = json.load(file)
    with open(os.path.join(ROOT, "kustomizationapi/swagger.json")) as file:
        own = json.load(file)
    return {**bundle["definitions"], **own["definitions"]}, bundle["resources"], own["definitions"]


def precomputed():
    """kyaml looks into a list in its source before it asks the document."""
    with open(os.path.join(ROOT, "openapi.go")) as file:
        source = file.read()
    rows = re.findall(r'\{APIVersion: "([^"]+)", Kind: "([^"]+)"\}:\s+(true|false)', source)
    return {(version, kind): namespaced == "true" for version, kind, namespaced in rows}


class Table:
    def __init__(self, definitions):
        self.definitions = definitions
        self.shapes = []
        self.at = {}
        self.names = {}

    def definition(self, name):
        """The number of a definition; recursion is cut by giving the number first."""
        if name not in self.names:
            self.names[name] = len(self.shapes)
            self.shapes.append(None)
            self.shapes[self.names[name]] = self.fields(self.definitions[name])
        return self.names[name]

    def fields(self, schema):
        rows = []
        for name, field in sorted(schema.get("properties", {}).items()):
            shape = self.shape(field)
            if shape:
                rows.append((name, shape))
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            shape = self.shape(extra)
            if shape:
                rows.append(("*", shape))
        return tuple(rows)

    def shape(self, schema):
        """None for scalars, which need no schema; ("D", n) for a definition; ("L", element, keys) for a list that merges;
        ("O",) for everything that a patch replaces as a whole or knows no fields of."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/definitions/")
            target = self.definitions[name]
            if "properties" in target or isinstance(target.get("additionalProperties"), dict):
                return ("D", self.definition(name))
            return self.shape(target)
        kind = schema.get("type")
        if kind == "array":
            if "merge" not in schema.get("x-kubernetes-patch-strategy", "").split(","):
                return ("O",)
            keys = schema.get("x-kubernetes-list-map-keys")
            if keys is None:
                key = schema.get("x-kubernetes-patch-merge-key")
                keys = [key] if key else []
            return ("L", self.shape(schema["items"]) or ("O",), tuple(keys))
        if "properties" in schema or isinstance(schema.get("additionalProperties"), dict):
            shape = self.fields(schema)
            return ("I", shape) if shape else ("O",)
        if kind in (None, "object"):
            return ("O",)
        return None


def fold(shapes):
    """Merges equal definitions until none is left, with those of no fields as ("O",); returns the new list and what each
    old one became."""
    to = list(range(len(shapes)))

    def rename(shape):
        if shape[0] == "D":
            target = to[shape[1]]
            return ("O",) if not shapes[target] else ("D", target)
        if shape[0] == "L":
            return ("L", rename(shape[1]), shape[2])
        if shape[0] == "I":
            return ("I", tuple((name, rename(inner)) for name, inner in shape[1]))
        return shape

    while True:
        seen, changed = {}, False
        for number, rows in enumerate(shapes):
            if to[number] != number:
                continue
            key = tuple((name, rename(shape)) for name, shape in rows)
            if key in seen:
                to[number], changed = seen[key], True
            else:
                seen[key] = number
        for number in range(len(to)):
            while to[to[number]] != to[number]:
                to[number] = to[to[number]]
        if not changed:
            break
    return [tuple((name, rename(shape)) for name, shape in rows) for rows in shapes], to


def used(shapes, roots):
    """The definitions that the roots lead to, renumbered."""
    order, todo = {}, [root for root in roots]

    def visit(shape):
        if shape[0] == "D":
            todo.append(shape[1])
        elif shape[0] == "L":
            visit(shape[1])
        elif shape[0] == "I":
            for _, inner in shape[1]:
                visit(inner)

    while todo:
        number = todo.pop(0)
        if number in order:
            continue
        order[number] = len(order)
        for _, shape in shapes[number]:
            visit(shape)

    def rename(shape):
        if shape[0] == "D":
            return ("D", order[shape[1]])
        if shape[0] == "L":
            return ("L", rename(shape[1]), shape[2])
        if shape[0] == "I":
            return ("I", tuple((name, rename(inner)) for name, inner in shape[1]))
        return shape

    return [tuple((name, rename(shape)) for name, shape in shapes[number]) for number in order], order


def rust(shape):
    if shape[0] == "D":
        return "D(%d)" % shape[1]
    if shape[0] == "I":
        return "I(&[%s])" % ", ".join('("%s", %s)' % (name, rust(inner)) for name, inner in shape[1])
    if shape[0] == "L":
        return "L(&%s, &[%s])" % (rust(shape[1]), ", ".join('"%s"' % key for key in shape[2]))
    return shape[0]


def main():
    definitions, resources, own = load()
    table = Table(definitions)
    kinds = {}
    for resource in resources:
        kinds[(resource["apiVersion"], resource["kind"])] = [None, resource.get("scope")]
    for name, definition in {**definitions, **own}.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", []):
            version = "/".join(part for part in (gvk.get("group"), gvk["version"]) if part)
            row = kinds.setdefault((version, gvk["kind"]), [None, None])
            row[0] = table.definition(name)
    fixed = precomputed()
    for key in fixed:
        kinds.setdefault(key, [None, None])
    shapes, to = fold(table.shapes)
    for row in kinds.values():
        row[0] = None if row[0] is None or not shapes[to[row[0]]] else to[row[0]]
    roots = [row[0] for _, row in sorted(kinds.items()) if row[0] is not None]
    named = {name: to[number] for name, number in table.names.items() if shapes[to[number]]}
    shapes, order = used(shapes, roots + sorted(set(named.values())))

    print("// Written by tests/oracle/kustomize-schema/generate.py. Do not edit.")
    print()
    print("use super::{Kind, Scope, Shape};")
    print("use Scope::{Cluster, Namespaced, Unknown};")
    print("use Shape::{D, I, L, O};")
    print()
    print("/// The fields of each definition that are maps or lists, in order of name; `*` stands for all others.")
    print("#[rustfmt::skip]")
    print("pub(super) static DEFINITIONS: &[&[(&str, Shape)]] = &[")
    for number, rows in enumerate(shapes):
        print("    /* %d */ &[%s]," % (number, ", ".join('("%s", %s)' % (name, rust(shape)) for name, shape in rows)))
    print("];")
    print()
    print("/// The definitions by name, in order, for documents of users that refer to them.")
    print("#[rustfmt::skip]")
    print("pub(super) static NAMES: &[(&str, u16)] = &[")
    for name, number in sorted(named.items()):
        print('    ("%s", %d),' % (name, order[number]))
    print("];")
    print()
    print("/// The kinds, in order of apiVersion and kind.")
    print("#[rustfmt::skip]")
    print("pub(super) static KINDS: &[Kind] = &[")
    for (version, kind), (definition, scope) in sorted(kinds.items()):
        if (version, kind) in fixed:
            scope = "Namespaced" if fixed[(version, kind)] else "Cluster"
        else:
            scope = {"Namespaced": "Namespaced", "namespaced": "Namespaced", "Cluster": "Cluster", "cluster": "Cluster"}.get(scope, "Unknown")
        always = (version, kind) in fixed
        if scope == "Unknown" and definition is None:
            continue
        place = "None" if definition is None else "Some(%d)" % order[definition]
        print('    Kind { api_version: "%s", kind: "%s", definition: %s, scope: %s, always: %s },' % (version, kind, place, scope, str(always).lower()))
    print("];")


main()
