//! What pages and JSON show.

use crate::world::{Fleets, NOW, Service, ask, id, row};
use driftless_dashboard::Request;
use driftless_dashboard::auth::Auth;
use driftless_dashboard::model::State;
use driftless_flux::FluxKind;
use serde_json::Value;

async fn text(address: &str) -> String {
    let answer = ask(
        &Fleets::new(),
        &Auth::Local,
        &Service::default(),
        &Request::get(address),
    )
    .await;
    assert_eq!(answer.status, 200, "{address}");
    answer.text()
}

#[tokio::test]
async fn a_failure_has_its_reason_its_file_and_its_line() {
    let first = text("/").await;
    assert!(
        first.contains("href=\"/objects/eu/Kustomization/green/web\""),
        "{first}"
    );
    let page = text("/objects/eu/Kustomization/green/web").await;
    assert!(
        page.contains("Deployment/green/web dry-run failed"),
        "{page}"
    );
    assert!(page.contains("<code>apps/web.yaml:12</code>"), "{page}");
    assert!(page.contains("https://github.com/acme/fleet/blob/main/apps/web.yaml#L12"));
    assert!(page.contains("configured"), "{page}");
    assert!(page.contains("What waits for what"), "{page}");
}

#[tokio::test]
async fn filters_and_links_find_objects() {
    let failed = text("/objects?state=failed").await;
    assert!(
        failed.contains("1</span>") || failed.contains("1 of 4"),
        "{failed}"
    );
    assert!(!failed.contains("HelmRelease · blue"), "{failed}");
    let found: Value = serde_json::from_str(&text("/api/v1/objects?q=HELM+blue").await).unwrap();
    assert_eq!(
        (&found["total"], &found["objects"][0]["kind"]),
        (&1.into(), &"HelmRelease".into())
    );
    assert_eq!(found["states"]["waiting"], 1);
    let beyond: Value =
        serde_json::from_str(&text("/api/v1/objects?page=999999999999").await).unwrap();
    assert_eq!(beyond["objects"].as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn pushes_have_their_landings() {
    let document: Value = serde_json::from_str(&text("/api/v1/pushes").await).unwrap();
    let push = &document["pushes"][0];
    assert_eq!(push["landings"].as_array().map(Vec::len), Some(2));
    assert_eq!(push["landings"][0]["state"], "failed");
    assert_eq!(push["tookMilliseconds"], 4400);
    let page = text("/pushes").await;
    assert!(
        page.contains("4.4 s") && page.contains("1 failed"),
        "{page}"
    );
}

/// The document describes every address, and every field that an answer has.
#[tokio::test]
async fn the_openapi_document_matches_the_answers() {
    let document: Value = serde_json::from_str(&text("/api/v1/openapi.json").await).unwrap();
    for (path, operation) in document["paths"].as_object().unwrap() {
        let address = path
            .replace("{hub}", "eu")
            .replace("{kind}", "Kustomization")
            .replace("{namespace}", "green")
            .replace("{name}", "web");
        let answer: Value =
            serde_json::from_str(&text(&format!("/api/v1{address}")).await).unwrap();
        let schema = &operation["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&document, schema, &answer, path);
    }
}

fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let schema = document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{place}: no {reference}"));
        return check(document, schema, value, place);
    }
    match value {
        Value::Object(map) => {
            let any = schema["anyOf"][0].clone();
            let schema = if any.is_null() { schema.clone() } else { any };
            if schema["$ref"].is_string() {
                return check(document, &schema, value, place);
            }
            if schema["additionalProperties"].is_object() {
                return;
            }
            for (key, value) in map {
                let field = &schema["properties"][key];
                assert!(
                    !field.is_null(),
                    "{place}: the field {key} is not described"
                );
                check(document, field, value, &format!("{place}.{key}"));
            }
        }
        Value::Array(list) => {
            for value in list {
                check(document, &schema["items"], value, place);
            }
        }
        _ => assert!(schema["type"] != "object" || value.is_null(), "{place}"),
    }
}

/// A page of a large installation is small, and is made quickly.
#[test]
fn ten_thousand_objects_are_one_page() {
    use driftless_dashboard::model::Snapshot;
    let objects = (0..10_000).map(|at| {
        let state = State::ALL[at % 5];
        row(
            "eu",
            id(
                FluxKind::Kustomization,
                &format!("team-{}", at % 50),
                &format!("app-{at}"),
            ),
            state,
        )
    });
    let snapshot = Snapshot {
        taken: NOW,
        hubs: Vec::new(),
        objects: objects.collect(),
    };
    let filter = driftless_dashboard::query::Filter::parse("q=app");
    let page = driftless_dashboard::views::objects(&snapshot, &filter).into_string();
    assert_eq!(page.matches("class=\"rowlink\"").count(), 100);
    assert!(page.len() < 150_000, "{} bytes", page.len());
}
