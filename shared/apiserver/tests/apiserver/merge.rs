//! Field ownership without a server.

use driftless_apiserver::merge::managers::{Apply, ApplyError, Manager, Versions, Writer, apply};
use driftless_apiserver::merge::set::Set;
use driftless_apiserver::merge::typed::{TypeRef, field_set};
use driftless_apiserver::schema::{Schema, builtin};
use serde_json::{Value, json};

struct Services(std::sync::Arc<Schema>);

impl Versions for Services {
    fn at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        let id = *self.0.kinds.get(&format!("{api_version}/Service"))?;
        Some(TypeRef {
            schema: &self.0,
            id,
        })
    }

    fn reset(&self, _: &str) -> Set {
        Set::of(&[&["status"]])
    }
}

fn service(ports: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports}})
}

fn run(
    live: &Value,
    managers: Vec<Manager>,
    name: &str,
    ports: &Value,
) -> Result<(Value, Vec<Manager>), ApplyError> {
    let writer = Writer {
        name,
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    };
    let config = service(ports);
    let request = Apply {
        live,
        config: &config,
        empty: &json!({}),
        writer: &writer,
        force: false,
    };
    apply(&Services(builtin()), &request, managers).map(|applied| {
        (
            applied.object.unwrap_or_else(|| live.clone()),
            applied.managers,
        )
    })
}

#[test]
fn items_belong_to_the_manager_that_applied_them() {
    let (live, managers) = run(&json!({}), vec![], "a", &json!([{"port": 80}])).unwrap();
    let (live, managers) = run(&live, managers, "b", &json!([{"port": 443}])).unwrap();
    assert_eq!(live["spec"]["ports"].as_array().unwrap().len(), 2);
    let (live, managers) = run(&live, managers, "a", &json!([])).unwrap();
    assert_eq!(live["spec"]["ports"], json!([{"port": 443}]));
    let refused = run(&live, managers, "a", &json!([{"port": 443, "name": "x"}])).map(|_| ());
    assert_eq!(refused, Ok(()));
}

#[test]
fn another_value_is_a_conflict() {
    let (live, managers) = run(
        &json!({}),
        vec![],
        "a",
        &json!([{"port": 80, "name": "web"}]),
    )
    .unwrap();
    let refused = run(&live, managers, "b", &json!([{"port": 80, "name": "www"}])).unwrap_err();
    let ApplyError::Conflicts(conflicts) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(
        conflicts[0].field,
        r#".spec.ports[port=80,protocol="TCP"].name"#
    );
}

/// Checks that large lists merge fast: a comparison of each item with each other would take
/// minutes.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that it takes is what is tested"
)]
fn the_fields_of_a_long_list_are_found_in_linear_time() {
    let numbers = 1..=100_000;
    let ports: Vec<Value> = numbers
        .map(|port| json!({"port": port, "protocol": "TCP"}))
        .collect();
    let schema = builtin();
    let of = TypeRef {
        schema: &schema,
        id: schema.kinds["v1/Service"],
    };
    let start = std::time::Instant::now();
    let set = field_set(of, &service(&json!(ports)));
    let took = start.elapsed();
    assert_eq!(set.paths().len(), 3 + 3 * ports.len());
    assert!(took.as_secs() < 10, "{took:?}");
}
