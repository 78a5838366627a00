//! The OpenAPI document of `/api/v1`.

use crate::model::State;
use serde_json::{Value, json};

/// Returns the document.
pub fn document() -> Value {
    let filters = filters();
    let object = ["hub", "kind", "namespace", "name"].map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "driftless dashboard", "version": "1",
            "description": "The state of the fleets. Each user sees the namespaces of the rules of access.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"session": []}],
        "paths": {
            "/version": get("A string that changes with what the user sees", &json!([]), "Version"),
            "/hubs": get("The hubs", &json!([]), "Hubs"),
            "/objects": get("A page of the Flux objects", &filters, "Objects"),
            "/objects/{hub}/{kind}/{namespace}/{name}": get("One object with its history", &json!(object), "Details"),
            "/graph": get("What waits for what", &filters, "Graph"),
            "/pushes": get("The last pushes and where they landed", &json!([]), "Pushes"),
            "/drift": get("The drift that was found", &json!([]), "Drift"),
        },
        "components": {
            "securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": crate::auth::SESSION_COOKIE}},
            "schemas": schemas(),
        },
    })
}

fn get(summary: &str, parameters: &Value, schema: &str) -> Value {
    let answer = |description: &str, schema: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
        json!({"description": description, "content": {"application/json": {"schema": schema}}})
    };
    json!({"get": {
        "summary": summary, "parameters": parameters,
        "responses": {
            "200": answer(summary, schema),
            "401": answer("Not logged in", "Error"),
            "404": answer("It does not exist, or the user may not see it", "Error"),
            "503": answer("The state cannot be read now", "Error"),
        },
    }})
}

fn filters() -> Value {
    let text = |name: &str, description: &str| json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}});
    let states = State::ALL.map(State::as_str);
    json!([
        text("q", "Words that must all be in the hub, cluster, name, revision or message"),
        text("hub", "The hub"),
        text("cluster", "The cluster"),
        text("namespace", "The namespace"),
        text("kind", "The kind"),
        {"name": "state", "in": "query", "description": "The states", "schema": {"type": "array", "items": {"type": "string", "enum": states}}},
        {"name": "sort", "in": "query", "schema": {"type": "string", "enum": ["state", "name", "age"]}},
        {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1}},
    ])
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn list(of: &Value) -> Value {
    json!({"type": "array", "items": of})
}

fn schemas() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let time = json!({"type": "string", "format": "date-time"});
    let optional = json!({"type": ["string", "null"]});
    let named = |schema: &str| json!({"$ref": format!("#/components/schemas/{schema}")});
    let states = json!({"type": "string", "enum": State::ALL.map(State::as_str)});
    let row = json!({
        "hub": text, "cluster": text, "kind": text, "namespace": text, "name": text,
        "state": states, "suspended": {"type": "boolean"}, "reason": text, "message": text,
        "revision": text, "attempted": text, "since": text, "created": text, "applied": number,
        "owner": {"anyOf": [named("Reference"), {"type": "null"}]},
        "source": {"anyOf": [named("Reference"), {"type": "null"}]},
        "dependsOn": list(&named("Reference")), "drift": optional,
    });
    let mut details = row.clone();
    details["place"] = json!({"type": ["object", "null"], "properties": {
        "file": text, "line": {"type": ["integer", "null"]}, "link": optional}});
    details["history"] = list(&named("Entry"));
    let change = json!({"object": text, "action": text, "fields": list(&object(&json!({
        "path": text, "from": text, "to": text})))});
    let entry = json!({
        "started": time, "ended": time, "cause": text, "revision": text, "result": text,
        "reason": text, "message": text, "changes": list(&named("Change")), "omitted": number,
    });
    let landing = json!({"hub": text, "object": named("Reference"), "state": states,
        "ended": time, "tookMilliseconds": number, "changed": number, "message": text});
    let push = json!({"revision": text, "received": time, "message": text,
        "tookMilliseconds": {"type": ["integer", "null"]},
        "sources": list(&object(&json!({"hub": text, "object": named("Reference")}))),
        "landings": list(&object(&landing))});
    let drift = json!({"hub": text, "object": named("Reference"), "at": text,
        "corrected": list(&named("Change")), "message": text});
    let edge = json!({"hub": text, "from": named("Reference"), "to": named("Reference")});
    json!({
        "Error": object(&json!({"error": text})),
        "Version": object(&json!({"version": text, "taken": time})),
        "Reference": object(&json!({"kind": text, "namespace": text, "name": text})),
        "Hubs": object(&json!({"hubs": list(&object(&json!({"name": text, "fleet": text, "error": optional})))})),
        "Object": object(&row),
        "Objects": object(&json!({"total": number, "page": number, "pages": number,
            "states": {"type": "object", "additionalProperties": number}, "objects": list(&named("Object"))})),
        "Details": object(&details),
        "Entry": object(&entry),
        "Change": object(&change),
        "Graph": object(&json!({"edges": list(&object(&edge))})),
        "Pushes": object(&json!({"pushes": list(&object(&push))})),
        "Drift": object(&json!({"drift": list(&object(&drift))})),
    })
}
