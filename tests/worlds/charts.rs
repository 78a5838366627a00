//! The chart of these tests: small, with all objects that the action paths need, each enabled by a
//! value.

use driftless_manifest::FileTree;

/// Returns the chart `web` in a version, as a repository serves it.
pub fn web(version: &str) -> FileTree {
    let chart = format!("apiVersion: v2\nname: web\nversion: {version}\nappVersion: \"9\"\n");
    FileTree::from_files([
        ("web/Chart.yaml", chart.as_str()),
        ("web/values.yaml", VALUES),
        ("web/templates/config.yaml", CONFIG),
        ("web/templates/extra.yaml", EXTRA),
        ("web/templates/service.yaml", SERVICE),
        ("web/templates/stuck.yaml", STUCK),
        ("web/templates/hook.yaml", HOOK),
        ("web/templates/test.yaml", TEST),
    ])
    .expect("a chart")
}

/// Returns the chart `web` with a CustomResourceDefinition of Things that have this field. The same
/// file also has a ConfigMap, which does not belong there.
pub fn web_with_crd(version: &str, field: &str) -> FileTree {
    let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    let definition = DEFINITION.replace("FIELD", field);
    FileTree::from_files([
        ("web/Chart.yaml", chart.as_str()),
        ("web/values.yaml", VALUES),
        ("web/crds/things.yaml", definition.as_str()),
        ("web/templates/config.yaml", CONFIG),
    ])
    .expect("a chart")
}

const DEFINITION: &str = r"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.acme.example}
spec:
  group: acme.example
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {FIELD: {type: string}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: stray, namespace: apps}
";

/// `extra`: another ConfigMap. `service`: a Service that needs defaults. `stuck`: a Deployment that
/// never becomes ready. `hook`: the event of a Job. `tests`: the names of test Pods.
const VALUES: &str =
    "color: blue\nextra: false\nservice: false\nstuck: false\nhook: \"\"\ntests: []\nbad: \"\"\n";

const CONFIG: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-config
data:
  color: {{ .Values.color }}
  revision: "{{ .Release.Revision }}"
{{- if .Values.bad }}
---
apiVersion: {{ .Values.bad }}
kind: Nothing
metadata:
  name: nothing
{{- end }}
"#;

const EXTRA: &str = r"{{- if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-extra
{{- end }}
";

/// Only the API server knows whether an empty string means its default.
const SERVICE: &str = r#"{{- if .Values.service }}
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  sessionAffinity: ""
  ports: [{port: 80}]
{{- end }}
"#;

const STUCK: &str = r"{{- if .Values.stuck }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
{{- end }}
";

const HOOK: &str = r"{{- if .Values.hook }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: {{ .Values.hook }}}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: hook, image: hook}]}
{{- end }}
";

const TEST: &str = r"{{- range .Values.tests }}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ $.Release.Name }}-{{ . }}
  annotations: {helm.sh/hook: test}
spec: {restartPolicy: Never, containers: [{name: test, image: test}]}
{{- end }}
";
