//! Claims and volumes.

use super::{CLAIMS, NAMESPACES, Object, start};
use crate::generate::yaml::{Yaml, list, map, plain, text};
use driftless_harness::random::Random;

pub(super) fn claim(random: &mut Random) -> Object {
    let name = random.pick(&CLAIMS);
    let mut made = start(random, "v1", "PersistentVolumeClaim", name, false);
    let mut spec = claim_spec(random);
    if random.percent(40) {
        spec.push("volumeName", text("disk"));
    }
    made.body.push("spec", spec);
    made
}

pub(super) fn claim_spec(random: &mut Random) -> Yaml {
    let mut spec = map([("accessModes", list(vec![text("ReadWriteOnce")]))]);
    if random.percent(50) {
        spec.push("storageClassName", text(random.pick(&["fast", "slow"])));
    }
    spec.push(
        "resources",
        map([("requests", map([("storage", plain("1Gi"))]))]),
    );
    spec
}

pub(super) fn volume(random: &mut Random) -> Object {
    if random.percent(40) {
        let mut made = start(random, "storage.k8s.io/v1", "StorageClass", "fast", true);
        made.body.push("provisioner", text("example.com/disk"));
        return made;
    }
    let mut made = start(random, "v1", "PersistentVolume", "disk", true);
    let claim = map([
        ("name", text(random.pick(&CLAIMS))),
        ("namespace", text(random.pick(&NAMESPACES))),
    ]);
    made.body.push(
        "spec",
        map([("storageClassName", text("fast")), ("claimRef", claim)]),
    );
    made
}
