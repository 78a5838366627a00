//! The fields that kustomize v5.8.2 transforms when nothing is configured.

use super::{BackReferences, Config};
use crate::fieldspec::FieldSpec;
use crate::resid::GvkFilter;
use std::borrow::Cow;

/// `group/version/Kind`; `*` means any group or version.
type Kind = &'static str;

fn gvk(kind: Kind) -> GvkFilter {
    let mut parts = kind.rsplitn(3, '|');
    let any = |text: &'static str| Cow::Borrowed(if text == "*" { "" } else { text });
    let kind = parts.next().map(any).unwrap_or_default();
    let version = parts.next().map(any).unwrap_or_default();
    let group = parts.next().map(any).unwrap_or_default();
    GvkFilter {
        group,
        version,
        kind,
    }
}

fn specs(create: bool, rows: &[(Kind, &'static str)]) -> Vec<FieldSpec> {
    rows.iter()
        .map(|(kind, path)| FieldSpec::new(gvk(kind), *path, create))
        .collect()
}

/// The kind that holds a pod's spec, and the path of the spec.
const POD: (Kind, &str) = ("v1|Pod", "spec");
const TEMPLATES: [(Kind, &str); 7] = [
    ("PodTemplate", "template/spec"),
    ("Deployment", "spec/template/spec"),
    ("ReplicaSet", "spec/template/spec"),
    ("DaemonSet", "spec/template/spec"),
    ("StatefulSet", "spec/template/spec"),
    ("Job", "spec/template/spec"),
    ("CronJob", "spec/jobTemplate/spec/template/spec"),
];

/// The kinds that name a service account, a claim or a priority class.
const RUNNERS: [(Kind, &str); 7] = [
    ("Pod", "spec"),
    ("StatefulSet", "spec/template/spec"),
    ("Deployment", "spec/template/spec"),
    ("ReplicationController", "spec/template/spec"),
    ("CronJob", "spec/jobTemplate/spec/template/spec"),
    ("Job", "spec/template/spec"),
    ("DaemonSet", "spec/template/spec"),
];

fn below(holders: &[(Kind, &str)], paths: &[&str]) -> Vec<FieldSpec> {
    let spec = |(kind, prefix): &(Kind, &str), path: &&str| {
        FieldSpec::new(gvk(kind), [prefix, *path].join("/"), false)
    };
    holders
        .iter()
        .flat_map(|holder| paths.iter().map(move |path| spec(holder, path)))
        .collect()
}

fn in_pods(paths: &[&str]) -> Vec<FieldSpec> {
    let mut all = below(&[POD], paths);
    all.extend(below(&TEMPLATES, paths));
    all
}

pub(super) fn config() -> Config {
    let mut common_labels = selectors();
    common_labels.extend(metadata_labels());
    common_labels.extend(claim_labels());
    Config {
        name_prefix: specs(false, &[("*", "metadata/name")]),
        name_suffix: specs(false, &[("*", "metadata/name")]),
        namespace: namespace(),
        common_labels,
        labels: Vec::new(),
        template_labels: metadata_labels(),
        volume_claim_template_labels: claim_labels(),
        common_annotations: specs(true, &ANNOTATIONS),
        name_reference: name_reference(),
        var_reference: var_reference(),
        images: specs(true, &IMAGES.map(|path| ("*", path))),
        replicas: [
            "Deployment",
            "ReplicationController",
            "ReplicaSet",
            "StatefulSet",
        ]
        .map(|kind| FieldSpec::new(GvkFilter::kind(kind), "spec/replicas", true))
        .to_vec(),
    }
}

const IMAGES: [&str; 7] = [
    "spec/containers[]/image",
    "spec/initContainers[]/image",
    "spec/volumes[]/image/reference",
    "spec/template/spec/containers[]/image",
    "spec/template/spec/initContainers[]/image",
    "spec/template/spec/volumes[]/image/reference",
    "spec/jobTemplate/spec/template/spec/volumes[]/image/reference",
];

const ANNOTATIONS: [(Kind, &str); 9] = [
    ("*", "metadata/annotations"),
    (
        "v1|ReplicationController",
        "spec/template/metadata/annotations",
    ),
    ("Deployment", "spec/template/metadata/annotations"),
    ("ReplicaSet", "spec/template/metadata/annotations"),
    ("DaemonSet", "spec/template/metadata/annotations"),
    ("StatefulSet", "spec/template/metadata/annotations"),
    ("batch|*|Job", "spec/template/metadata/annotations"),
    ("batch|*|CronJob", "spec/jobTemplate/metadata/annotations"),
    (
        "batch|*|CronJob",
        "spec/jobTemplate/spec/template/metadata/annotations",
    ),
];

fn namespace() -> Vec<FieldSpec> {
    let mut all = specs(
        true,
        &[
            ("Namespace", "metadata/name"),
            (
                "apiregistration.k8s.io|*|APIService",
                "spec/service/namespace",
            ),
        ],
    );
    all.extend(specs(
        false,
        &[(
            "apiextensions.k8s.io|*|CustomResourceDefinition",
            "spec/conversion/webhook/clientConfig/service/namespace",
        )],
    ));
    all
}

fn metadata_labels() -> Vec<FieldSpec> {
    specs(
        true,
        &[
            ("*", "metadata/labels"),
            ("v1|ReplicationController", "spec/template/metadata/labels"),
            ("Deployment", "spec/template/metadata/labels"),
            ("ReplicaSet", "spec/template/metadata/labels"),
            ("DaemonSet", "spec/template/metadata/labels"),
            ("apps|*|StatefulSet", "spec/template/metadata/labels"),
            ("batch|*|Job", "spec/template/metadata/labels"),
            ("batch|*|CronJob", "spec/jobTemplate/metadata/labels"),
            (
                "batch|*|CronJob",
                "spec/jobTemplate/spec/template/metadata/labels",
            ),
        ],
    )
}

fn claim_labels() -> Vec<FieldSpec> {
    specs(
        true,
        &[(
            "apps|*|StatefulSet",
            "spec/volumeClaimTemplates[]/metadata/labels",
        )],
    )
}

/// Returns the fields with which workloads select pods by label.
fn selectors() -> Vec<FieldSpec> {
    let mut all = specs(
        true,
        &[
            ("v1|Service", "spec/selector"),
            ("v1|ReplicationController", "spec/selector"),
            ("Deployment", "spec/selector/matchLabels"),
            ("ReplicaSet", "spec/selector/matchLabels"),
            ("DaemonSet", "spec/selector/matchLabels"),
            ("apps|*|StatefulSet", "spec/selector/matchLabels"),
        ],
    );
    const SPREAD: [&str; 5] = [
        "affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
        "affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
        "affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels",
        "affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels",
        "topologySpreadConstraints/labelSelector/matchLabels",
    ];
    let spreaders = [
        ("apps|*|Deployment", "spec/template/spec"),
        ("apps|*|StatefulSet", "spec/template/spec"),
    ];
    all.extend(below(&spreaders, &SPREAD));
    all.extend(specs(
        false,
        &[
            ("batch|*|Job", "spec/selector/matchLabels"),
            (
                "batch|*|CronJob",
                "spec/jobTemplate/spec/selector/matchLabels",
            ),
            ("policy|*|PodDisruptionBudget", "spec/selector/matchLabels"),
            (
                "networking.k8s.io|*|NetworkPolicy",
                "spec/podSelector/matchLabels",
            ),
            (
                "networking.k8s.io|*|NetworkPolicy",
                "spec/ingress/from/podSelector/matchLabels",
            ),
            (
                "networking.k8s.io|*|NetworkPolicy",
                "spec/egress/to/podSelector/matchLabels",
            ),
        ],
    ));
    all
}

const ROLES: [(Kind, &str); 2] = [("Role", "rules"), ("ClusterRole", "rules")];

fn name_reference() -> Vec<BackReferences> {
    let to = |target: Kind, referrers: Vec<FieldSpec>| BackReferences {
        target: gvk(target),
        referrers,
    };
    let mut all: Vec<BackReferences> = [
        "Deployment",
        "ReplicationController",
        "ReplicaSet",
        "StatefulSet",
    ]
    .into_iter()
    .map(|kind| {
        to(
            kind,
            specs(
                false,
                &[("HorizontalPodAutoscaler", "spec/scaleTargetRef/name")],
            ),
        )
    })
    .collect();
    all.push(to("v1|ConfigMap", config_map_referrers()));
    all.push(to("v1|Secret", secret_referrers()));
    all.push(to("v1|Service", service_referrers()));
    all.push(to(
        "rbac.authorization.k8s.io|*|Role",
        specs(
            false,
            &[("rbac.authorization.k8s.io|*|RoleBinding", "roleRef/name")],
        ),
    ));
    all.push(to(
        "rbac.authorization.k8s.io|*|ClusterRole",
        specs(
            false,
            &[
                ("rbac.authorization.k8s.io|*|RoleBinding", "roleRef/name"),
                (
                    "rbac.authorization.k8s.io|*|ClusterRoleBinding",
                    "roleRef/name",
                ),
            ],
        ),
    ));
    let mut accounts = specs(
        false,
        &[
            ("rbac.authorization.k8s.io|*|RoleBinding", "subjects"),
            ("rbac.authorization.k8s.io|*|ClusterRoleBinding", "subjects"),
        ],
    );
    accounts.extend(below(&RUNNERS, &["serviceAccountName"]));
    all.push(to("v1|ServiceAccount", accounts));
    all.push(to(
        "v1|PersistentVolumeClaim",
        below(&RUNNERS, &["volumes/persistentVolumeClaim/claimName"]),
    ));
    all.push(to(
        "v1|PersistentVolume",
        specs(
            false,
            &[
                ("PersistentVolumeClaim", "spec/volumeName"),
                ("ClusterRole", "rules/resourceNames"),
            ],
        ),
    ));
    all.push(to(
        "storage.k8s.io|v1|StorageClass",
        specs(
            false,
            &[
                ("PersistentVolume", "spec/storageClassName"),
                ("PersistentVolumeClaim", "spec/storageClassName"),
                (
                    "StatefulSet",
                    "spec/volumeClaimTemplates/spec/storageClassName",
                ),
            ],
        ),
    ));
    all.push(to(
        "scheduling.k8s.io|v1|PriorityClass",
        below(&RUNNERS, &["priorityClassName"]),
    ));
    // kustomize's own table also has the version in the group, so this one never matches there
    // either.
    all.push(to(
        "networking.k8s.io/v1|v1|IngressClass",
        specs(false, &[("Ingress", "spec/ingressClassName")]),
    ));
    all.push(to(
        "admissionregistration.k8s.io|*|ValidatingAdmissionPolicy",
        specs(
            false,
            &[(
                "admissionregistration.k8s.io|*|ValidatingAdmissionPolicyBinding",
                "spec/policyName",
            )],
        ),
    ));
    all
}

fn config_map_referrers() -> Vec<FieldSpec> {
    let mut all = in_pods(&[
        "volumes/configMap/name",
        "containers/env/valueFrom/configMapKeyRef/name",
        "initContainers/env/valueFrom/configMapKeyRef/name",
        "containers/envFrom/configMapRef/name",
        "initContainers/envFrom/configMapRef/name",
        "volumes/projected/sources/configMap/name",
    ]);
    all.extend(specs(false, &[("Node", "spec/configSource/configMap")]));
    all.extend(below(&ROLES, &["resourceNames"]));
    all.extend(specs(
        false,
        &[(
            "Ingress",
            r"metadata/annotations/nginx.ingress.kubernetes.io\/fastcgi-params-configmap",
        )],
    ));
    all
}

fn secret_referrers() -> Vec<FieldSpec> {
    let mut all = in_pods(&[
        "volumes/secret/secretName",
        "containers/env/valueFrom/secretKeyRef/name",
        "initContainers/env/valueFrom/secretKeyRef/name",
        "containers/envFrom/secretRef/name",
        "initContainers/envFrom/secretRef/name",
        "imagePullSecrets/name",
        "volumes/projected/sources/secret/name",
    ]);
    all.extend(specs(
        false,
        &[
            ("Ingress", "spec/tls/secretName"),
            (
                "Ingress",
                r"metadata/annotations/ingress.kubernetes.io\/auth-secret",
            ),
            (
                "Ingress",
                r"metadata/annotations/nginx.ingress.kubernetes.io\/auth-secret",
            ),
            (
                "Ingress",
                r"metadata/annotations/nginx.ingress.kubernetes.io\/auth-tls-secret",
            ),
            ("ServiceAccount", "imagePullSecrets/name"),
            ("StorageClass", "parameters/secretName"),
            ("StorageClass", "parameters/adminSecretName"),
            ("StorageClass", "parameters/userSecretName"),
            ("StorageClass", "parameters/secretRef"),
        ],
    ));
    all.extend(below(&ROLES, &["resourceNames"]));
    all.extend(specs(
        false,
        &[
            (
                "serving.knative.dev|v1|Service",
                "spec/template/spec/containers/env/valueFrom/secretKeyRef/name",
            ),
            ("PersistentVolume", "spec/azureFile/secretName"),
        ],
    ));
    all
}

fn service_referrers() -> Vec<FieldSpec> {
    specs(
        false,
        &[
            ("apps|*|StatefulSet", "spec/serviceName"),
            ("Ingress", "spec/rules/http/paths/backend/serviceName"),
            ("Ingress", "spec/backend/serviceName"),
            ("Ingress", "spec/rules/http/paths/backend/service/name"),
            ("Ingress", "spec/defaultBackend/service/name"),
            ("apiregistration.k8s.io|*|APIService", "spec/service/name"),
            (
                "admissionregistration.k8s.io|*|ValidatingWebhookConfiguration",
                "webhooks/clientConfig/service",
            ),
            (
                "admissionregistration.k8s.io|*|MutatingWebhookConfiguration",
                "webhooks/clientConfig/service",
            ),
        ],
    )
}

fn var_reference() -> Vec<FieldSpec> {
    const IN_CONTAINERS: [&str; 8] = [
        "containers/args",
        "containers/command",
        "containers/env/value",
        "containers/volumeMounts/mountPath",
        "initContainers/args",
        "initContainers/command",
        "initContainers/env/value",
        "initContainers/volumeMounts/mountPath",
    ];
    let holders = [
        ("CronJob", "spec/jobTemplate/spec/template/spec"),
        ("DaemonSet", "spec/template/spec"),
        ("Deployment", "spec/template/spec"),
        ("Job", "spec/template/spec"),
        ("Pod", "spec"),
        ("ReplicaSet", "spec/template/spec"),
        ("StatefulSet", "spec/template/spec"),
    ];
    let mut all = below(&holders, &IN_CONTAINERS);
    all.extend(specs(
        false,
        &[
            // Like kustomize: without the pod's spec for CronJobs, in the claim for StatefulSets.
            (
                "CronJob",
                "spec/jobTemplate/spec/template/volumes/nfs/server",
            ),
            ("DaemonSet", "spec/template/spec/volumes/nfs/server"),
            ("Deployment", "spec/template/spec/volumes/nfs/server"),
            ("Job", "spec/template/spec/volumes/nfs/server"),
            ("Pod", "spec/volumes/nfs/server"),
            ("ReplicaSet", "spec/template/spec/volumes/nfs/server"),
            ("StatefulSet", "spec/volumeClaimTemplates/spec/nfs/server"),
            ("Deployment", "spec/template/metadata/annotations"),
            ("Ingress", "spec/rules/host"),
            ("Ingress", "spec/tls/hosts"),
            ("Ingress", "spec/tls/secretName"),
            ("Service", "spec/ports/port"),
            ("Service", "spec/ports/targetPort"),
            ("PersistentVolume", "spec/nfs/server"),
            ("*", "metadata/labels"),
            ("*", "metadata/annotations"),
        ],
    ));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kinds() {
        assert_eq!(
            gvk("batch|*|Job"),
            GvkFilter {
                group: "batch".into(),
                version: "".into(),
                kind: "Job".into()
            }
        );
        assert_eq!(
            gvk("v1|Pod"),
            GvkFilter {
                group: "".into(),
                version: "v1".into(),
                kind: "Pod".into()
            }
        );
        assert_eq!(gvk("*"), GvkFilter::default());
    }
}
