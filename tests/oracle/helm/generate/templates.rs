//! A chart's templates: objects, hooks, partials, notes.

use super::expression::Expressions;
use driftless_harness::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const KINDS: [&str; 16] = [
    "ConfigMap",
    "ConfigMap",
    "Secret",
    "Service",
    "Deployment",
    "Namespace",
    "Ingress",
    "Zebra",
    "APIService",
    "CronJob",
    "StorageClass",
    "MutatingWebhookConfiguration",
    "ClusterRole",
    "RoleBinding",
    "Aardvark",
    "ServiceAccount",
];

/// Adds the templates of a chart; of a library, only the partials matter.
pub fn templates(
    random: &mut Random,
    files: &mut BTreeMap<String, String>,
    at: &str,
    chart: &str,
    library: bool,
) {
    let directory = format!("{at}templates/");
    // In most charts, the release's values as the chart sees them: the result of merging them.
    if random.percent(70) {
        files.insert(
            format!("{directory}values.yaml"),
            format!(
                "{}data:\n  values: |\n    {{{{- toYaml .Values | nindent 4 }}}}\n",
                head("ConfigMap", chart)
            ),
        );
    }
    if chart == "top" || library || random.percent(30) {
        let path = random.pick(&["_helpers.tpl", "_a.yaml", "sub/_b.tpl"]);
        let text = partials(random, chart);
        files.insert(format!("{directory}{path}"), text);
    }
    for number in 0..random.below(4) {
        let name = random.pick(&["a", "deploy", "z", "sub/b", "0"]);
        let end = random.pick(&["yaml", "yaml", "yaml", "yml", "json", "txt", "tpl"]);
        let text = file(random, chart, number);
        files.insert(format!("{directory}{name}{number}.{end}"), text);
    }
    if random.percent(25) {
        let path = random.pick(&["NOTES.txt", "NOTES.txt", "NOTES.txt", "sub/NOTES.txt"]);
        let text = body(random, 2);
        files.insert(
            format!("{directory}{path}"),
            format!("Notes of {{{{ .Chart.Name }}}}\n{text}\n"),
        );
    }
}

fn head(kind: &str, name: &str) -> String {
    format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n")
}

/// Returns named templates; of those that all charts define, the path decides which one wins.
fn partials(random: &mut Random, chart: &str) -> String {
    let mut out = String::new();
    let text = body(random, 1).replace("\"shared\"", "\"top.labels\"");
    let _ = writeln!(
        out,
        "{{{{ define \"shared\" }}}}{chart} of {{{{ .Chart.Name }}}}{text}{{{{ end }}}}"
    );
    let _ = writeln!(
        out,
        "{{{{- define \"{chart}.labels\" -}}}}\napp: {{{{ .Chart.Name }}}}\nrelease: {{{{ .Release.Name | quote }}}}\n{{{{- with .Values.labels }}}}\n{{{{ toYaml . }}}}\n{{{{- end }}}}\n{{{{- end }}}}"
    );
    if chart == "top" || random.percent(30) {
        let _ = writeln!(
            out,
            "{{{{/* a comment */}}}}\n{{{{ define \"{chart}.with\" }}}}{{{{ .root.Chart.Name }}}}/{{{{ .key }}}}{{{{ end }}}}"
        );
    }
    if random.percent(10) {
        out.push_str("text outside of any template {{ .Chart.Version }}\n");
    }
    out
}

/// Returns a file of one to three documents.
fn file(random: &mut Random, chart: &str, number: usize) -> String {
    let mut out = String::new();
    for document in 0..random.pick(&[1, 1, 1, 2, 3]) {
        if document > 0 || random.percent(30) {
            let between = [
                "---\n",
                "---\n",
                "--- \n",
                "\n---\n# a comment\n",
                "---\n---\n",
                "# only a comment\n---\n",
                "\n\n---\n\n",
                "--- # x\n",
            ];
            out.push_str(random.pick(&between));
        }
        let name = format!("{chart}-{number}{document}");
        match random.below(12) {
            0 => out.push_str(&hook(random, &name)),
            1 => {
                let condition = condition(random);
                let object = object(random, &name);
                let _ = write!(out, "{{{{- if {condition} }}}}\n{object}\n{{{{- end }}}}\n");
            }
            2 => {
                let _ = write!(
                    out,
                    "{{{{- range $at := until {} }}}}\n---\n{}  at: {{{{ $at }}}}\n{{{{- end }}}}\n",
                    random.below(3),
                    head("Secret", &name)
                );
            }
            3 => {
                // Changes of the values by a template are visible to later ones.
                let _ = write!(
                    out,
                    "{{{{- $_ := set .Values \"own\" .Chart.Name }}}}\n{{{{- if kindIs \"map\" .Values.global }}}}{{{{ $_ := set .Values.global \"seen{number}\" .Template.Name }}}}{{{{ end }}}}\n{}data:\n  g: {{{{ .Values.global | toJson | quote }}}}\n  subs: {{{{ keys .Subcharts | sortAlpha | join \",\" | quote }}}}\n",
                    head("ConfigMap", &name)
                );
            }
            4 => out.push_str(&odd(random, &name)),
            _ => out.push_str(&object(random, &name)),
        }
        out.push_str(random.pick(&["", "", "", "\n", "   \n", "\n\n"]));
    }
    out
}

/// Returns documents that test where Helm splits and trims.
fn odd(random: &mut Random, name: &str) -> String {
    match random.below(6) {
        0 => format!(
            "{}data:\n  text: |\n    line\n\n  \n",
            head("ConfigMap", name)
        ),
        1 if random.percent(20) => {
            "  apiVersion: v1\n  kind: Service\n  metadata: {name: x}\n".to_owned()
        }
        2 => "# {{ .Release.Name }}\n".to_owned(),
        3 => format!(
            "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}}}\n"
        ),
        4 => format!(
            "{}data: {{{{ .Values.labels | toJson }}}}\nkind: Twice\n",
            head("ConfigMap", name)
        ),
        _ => format!(
            "{}{{{{ if .Values.off }}}}\n{{{{ end }}}}\n{{{{- /* gone */ -}}}}\n",
            head("Service", name)
        ),
    }
}

fn hook(random: &mut Random, name: &str) -> String {
    let events = [
        "pre-install",
        "post-install,pre-upgrade",
        "test",
        "test-success",
        "no-such-hook",
        "Pre-Install , test",
        "pre-delete, post-rollback",
        "crd-install",
    ];
    let mut out = head(random.pick(&["Job", "Pod", "ConfigMap", "Secret"]), name);
    let _ = write!(
        out,
        "  annotations:\n    \"helm.sh/hook\": {}\n",
        random.pick(&events)
    );
    if random.percent(60) {
        let _ = writeln!(
            out,
            "    helm.sh/hook-weight: {:?}",
            random.pick(&["1", "-5", "x", "+3", "1.5", "0x1"])
        );
    }
    if random.percent(50) {
        let policies = [
            "before-hook-creation",
            "hook-succeeded, hook-failed",
            "Before-Hook-Creation",
            "odd",
        ];
        let _ = writeln!(
            out,
            "    helm.sh/hook-delete-policy: {}",
            random.pick(&policies)
        );
    }
    if random.percent(15) {
        out.push_str("    helm.sh/hook-output-log-policy: hook-succeeded\n");
    }
    out
}

fn object(random: &mut Random, name: &str) -> String {
    let mut out = head(random.pick(&KINDS), name);
    if random.percent(30) {
        let _ = write!(
            out,
            "  labels:\n    {{{{- include \"top.labels\" . | nindent 4 }}}}\n"
        );
    }
    out.push_str("data:\n");
    for number in 0..1 + random.below(5) {
        let text = field(random, number);
        out.push_str(&text);
    }
    out
}

/// Returns a field whose value is a template; in most cases written so that any result is valid
/// YAML.
fn field(random: &mut Random, number: usize) -> String {
    let kind = ['t', 't', 't', 'n', 'f', 'l', 'm', 'b', 'a'][random.below(9)];
    let mut expressions = Expressions {
        random,
        variables: Vec::new(),
    };
    let expression = expressions.of(kind, 3);
    match random.below(40) {
        0..=19 => format!("  k{number}: {{{{ {expression} | quote }}}}\n"),
        20..=26 => format!("  k{number}: {{{{ {expression} | toJson }}}}\n"),
        27..=31 => format!("  k{number}:\n    {{{{- {expression} | toYaml | nindent 4 }}}}\n"),
        32..=35 => format!(
            "  k{number}: {{{{- $v{number} := {expression} }}}} {{{{ printf \"%v\" $v{number} | quote }}}}\n"
        ),
        36..=38 => {
            let inner = body(random, 2);
            format!(
                "  k{number}: |\n    {{{{ with {expression} }}}}{}{{{{ end }}}}\n",
                inner.replace('\n', "\n    ")
            )
        }
        _ => format!("  k{number}: {{{{ {expression} }}}}\n"),
    }
}

fn condition(random: &mut Random) -> String {
    Expressions {
        random,
        variables: Vec::new(),
    }
    .of('b', 2)
}

/// Returns text with actions in it.
fn body(random: &mut Random, depth: usize) -> String {
    let mut out = String::new();
    let mut variables = Vec::new();
    actions(random, depth, &mut variables, &mut out);
    out
}

fn actions(
    random: &mut Random,
    depth: usize,
    variables: &mut Vec<(String, char)>,
    out: &mut String,
) {
    let known = variables.len();
    for _ in 0..1 + random.below(3) {
        out.push_str(random.pick(&["", " ", "text ", "\n", "é", "- "]));
        let (open, close) = (
            random.pick(&["{{", "{{", "{{-"]),
            random.pick(&["}}", "}}", "-}}"]),
        );
        let kind = ['t', 'n', 'l', 'm', 'b'][random.below(5)];
        let inner = random.pick(&['t', 't', 'a', kind]);
        let expression = Expressions {
            random,
            variables: variables.clone(),
        }
        .of(inner, 2);
        let choice = if depth == 0 { 9 } else { random.below(12) };
        match choice {
            0 | 1 => {
                let _ = write!(out, "{open} if {expression} {close}");
                actions(random, depth - 1, variables, out);
                if random.percent(50) {
                    let _ = write!(out, "{open} else {close}");
                    actions(random, depth - 1, variables, out);
                }
                let _ = write!(out, "{open} end {close}");
            }
            2 => {
                let list = Expressions {
                    random,
                    variables: variables.clone(),
                }
                .of('l', 2);
                let (index, item) = (format!("$i{depth}"), format!("$e{depth}"));
                let _ = write!(out, "{open} range {index}, {item} := {list} {close}");
                variables.push((index, 'n'));
                variables.push((item, 'a'));
                actions(random, depth - 1, variables, out);
                variables.truncate(known);
                let _ = write!(out, "{open} else {close}none{open} end {close}");
            }
            3 => {
                let table = Expressions {
                    random,
                    variables: variables.clone(),
                }
                .of('m', 2);
                let _ = write!(
                    out,
                    "{open} range $k{depth}, $v{depth} := {table} {close}{{{{ $k{depth} }}}}={{{{ $v{depth} | toJson }}}};{open} end {close}"
                );
            }
            4 => {
                let name = format!("$x{}", variables.len());
                let made = Expressions {
                    random,
                    variables: variables.clone(),
                }
                .of(kind, 2);
                let _ = write!(out, "{open} {name} := {made} {close}");
                variables.push((name, kind));
            }
            5 => {
                let _ = write!(
                    out,
                    "{open} template {} {close}",
                    random.pick(&["\"shared\" $", "\"shared\" $", "\"top.labels\" $"])
                );
            }
            6 => {
                let _ = write!(
                    out,
                    "{open} include \"top.with\" (dict \"root\" $ \"key\" {:?}) {close}",
                    random.pick(&["k", "é"])
                );
            }
            _ => {
                let _ = write!(out, "{open} {expression} {close}");
            }
        }
    }
    variables.truncate(known);
}
