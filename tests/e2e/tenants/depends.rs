//! The fields of a dependency in another namespace that an expression may read.

use super::*;

#[test]
fn a_dependency_of_another_namespace_exposes_only_its_conditions() {
    let world = start(&[
        Change::write("a/a.yaml", config("a")),
        Change::write("b/b.yaml", config("b").replace("team-b", "team-a")),
    ]);
    let mut secret = sync("./b");
    secret["postBuild"] = json!({"substitute": {"password": "hunter2"}});
    create(&world, "Kustomization", "team-b", "secret", secret);
    is_true(&world, "Kustomization", "team-b", "secret");
    let waits_for = |namespace: &str, expression: &str| {
        let mut spec = sync("./a");
        spec["dependsOn"] =
            json!([{"name": "secret", "namespace": namespace, "readyExpr": expression}]);
        spec
    };
    let guess = "dep.spec.postBuild.substitute.password.startsWith('h')";
    let ready = "dep.metadata.name == 'secret' && dep.status.observedGeneration == dep.metadata.generation && \
                 dep.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')";
    let text = "dep.status.conditions.exists(c, c.message.contains('Applied'))";
    let artifact = "has(dep.status.lastAppliedRevision)";
    create(
        &world,
        "Kustomization",
        "team-a",
        "open",
        waits_for("team-b", guess),
    );
    is_true(&world, "Kustomization", "team-a", "open");

    // The lock-down also forbids sources in other namespaces, so the tenant gets its own source.
    world.lock_down("hub");
    let deps = [
        ("guess", guess, false),
        ("text", text, false),
        ("artifact", artifact, false),
        ("ready", ready, true),
    ];
    let source = json!({"interval": "1m", "url": format!("https://github.com/{FLEET}"), "ref": {"branch": "main"}});
    create(&world, "GitRepository", "team-a", "fleet", source);
    for (name, expression, holds) in deps {
        let mut spec = waits_for("team-b", expression);
        spec["sourceRef"] = json!({"kind": "GitRepository", "name": "fleet"});
        create(&world, "Kustomization", "team-a", name, spec);
        let (status, reason, message) = condition(&world, "Kustomization", "team-a", name);
        match holds {
            true => assert_eq!(status, "True", "{name}: {reason}: {message}"),
            false => {
                assert_eq!(reason, "DependencyNotReady", "{name}: {message}");
                assert!(message.contains("readyExpr"), "{name}: {message}");
                assert!(!message.contains("hunter2"), "{name}: {message}");
            }
        }
    }
}
