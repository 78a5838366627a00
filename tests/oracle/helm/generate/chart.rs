//! A chart's files, with subcharts.

use super::{templates, values};
use driftless_harness::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Adds the files of a chart in the directory `at`.
pub fn chart(
    random: &mut Random,
    files: &mut BTreeMap<String, String>,
    at: &str,
    name: &str,
    depth: usize,
) {
    let mut text = head(random, name, depth);
    let library = text.contains("type: library");
    let count = match depth {
        0 => random.below(4),
        1 => random.pick(&[0, 0, 1, 2]),
        _ => 0,
    };
    let mut dependencies = String::new();
    for number in 0..count {
        let sub = format!("s{depth}{number}");
        chart(
            random,
            files,
            &format!("{at}charts/{sub}/"),
            &sub,
            depth + 1,
        );
        dependency(random, &mut dependencies, &sub);
    }
    if random.percent(1) {
        dependencies.push_str("- name: absent\n  version: 1.0.0\n");
    }
    if !dependencies.is_empty() {
        let list = format!("dependencies:\n{dependencies}");
        // Charts of apiVersion v1 may have them in a separate file.
        if text.contains("apiVersion: v1") && random.percent(60) {
            files.insert(format!("{at}requirements.yaml"), list);
        } else {
            text.push_str(&list);
        }
    }
    files.insert(format!("{at}Chart.yaml"), text);
    if random.percent(95) {
        files.insert(format!("{at}values.yaml"), values::own(random));
    }
    other_files(random, files, at, name);
    templates::templates(random, files, at, name, library);
}

fn head(random: &mut Random, name: &str, depth: usize) -> String {
    let api = random.pick(&["v2", "v2", "v2", "v1"]);
    let version = random.pick(&["1.0.0", "1.2.3", "0.1.0-rc.1", "1.2.3+b1"]);
    let mut out = format!("apiVersion: {api}\nname: {name}\nversion: {version}\n");
    if random.percent(35) {
        let versions = ["\"1.0\"", "1.10", "v3", "2024-01-01", "true", "1e3"];
        let _ = writeln!(out, "appVersion: {}", random.pick(&versions));
    }
    if depth > 0 && random.percent(12) {
        out.push_str("type: library\n");
    } else if random.percent(10) {
        out.push_str("type: application\n");
    }
    if random.percent(12) {
        let ranges = [
            ">=1.20.0-0",
            "^1.34",
            "< 1.40",
            ">1.20 <1.40 || 2.x",
            "1.34.x",
            "~1.34.0",
            ">=1.20 , <2",
            "1.30 - 1.36",
            "!=1.33.0",
            "*",
        ];
        let range = if random.percent(4) {
            ">= 1.50"
        } else {
            random.pick(&ranges)
        };
        let _ = writeln!(out, "kubeVersion: {range:?}");
    }
    if random.percent(20) {
        out.push_str("description: A  chart\\t of é\nkeywords: [a, b]\nmaintainers: [{name: Ann, email: a@example.com}]\nannotations: {x: \"1\", y: z}\nhome: https://example.com\n");
    }
    if random.percent(6) {
        out.push_str("unknown: field\nicon: i.png\ndeprecated: true\n");
    }
    out
}

fn dependency(random: &mut Random, out: &mut String, sub: &str) {
    if random.percent(10) {
        return;
    }
    let times = if random.percent(15) { 2 } else { 1 };
    for time in 0..times {
        let versions = [
            "*",
            ">=0.0.0-0",
            ">=0.0.0-0",
            "^1",
            "~1.2",
            "1.x",
            "0.1.0-rc.1",
            "1.0.0 - 2",
        ];
        let _ = write!(
            out,
            "- name: {sub}\n  version: {:?}\n  repository: \"\"\n",
            random.pick(&versions)
        );
        if time > 0 || random.percent(12) {
            let alias = match random.below(4) {
                0 if time == 0 => "ali".to_owned(),
                1 if time == 0 => "b".to_owned(),
                _ if time == 0 => format!("{sub}-y"),
                _ => format!("{sub}-x"),
            };
            let _ = writeln!(out, "  alias: {alias}");
        }
        if random.percent(35) {
            let conditions = [
                "on",
                "enabled",
                "a.on",
                "a.off,on",
                "b.enabled",
                "global.on",
                "off",
                "name",
                " on, enabled",
            ];
            let own = [format!("{sub}.enabled"), format!("{sub}.on,{sub}.enabled")];
            let condition = match random.below(3) {
                0 => random.choose(&own).as_str(),
                _ => random.pick(&conditions),
            };
            let _ = writeln!(out, "  condition: {condition:?}");
        }
        if random.percent(25) {
            let _ = writeln!(
                out,
                "  tags: [{}]",
                random.pick(&["front", "back", "front, back", "other"])
            );
        }
        if random.percent(30) {
            let imports = [
                "data",
                "{child: a, parent: b}",
                "{child: a, parent: a}",
                "data, {child: exports.data, parent: c.d}",
                "{child: missing, parent: a}",
                "{child: labels, parent: .}",
                "{child: env, parent: env}",
                "nothing",
                "{child: tags, parent: tags}",
            ];
            let _ = writeln!(out, "  import-values: [{}]", random.pick(&imports));
        }
    }
}

/// Adds files for `.Files`, CRDs and a schema.
fn other_files(random: &mut Random, files: &mut BTreeMap<String, String>, at: &str, name: &str) {
    if random.percent(40) {
        let texts = [
            ("files/one.txt", "one {{ not a template }}\n"),
            ("files/two.conf", "a\nb: {{ .Chart.Name }}\n\nlast"),
            ("files/three.json", "{\"k\": [1, 2.50, null]}"),
            ("files/sub/four.txt", "\ttab and é\r\nline\n"),
            ("README.md", "# Read me\n"),
        ];
        for (path, text) in texts {
            if random.percent(70) {
                files.insert(format!("{at}{path}"), text.to_owned());
            }
        }
    }
    if random.percent(15) {
        let path = random.pick(&["a.yaml", "b.yml", "c.json", "d.txt", "sub/e.yaml"]);
        let end = random.pick(&["", "---\n", "\n\n", "---\napiVersion: v1\nkind: Second\n"]);
        files.insert(
            format!("{at}crds/{path}"),
            format!("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {name}\n{end}"),
        );
    }
    if random.percent(5) {
        let schemas = [
            r#"{"properties": {"a": {"type": ["object", "string", "null", "number", "boolean"]}}}"#,
            r#"{"properties": {"port": {"type": ["integer", "null"]}, "name": {"type": "string", "pattern": "^[a-zÄ{]?"}}}"#,
            r#"{"$schema": "https://json-schema.org/draft-07/schema#", "properties": {"d": {"not": {"type": "integer"}}}}"#,
            r##"{"additionalProperties": true, "properties": {"c": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"not": {"type": "boolean"}}}}"##,
            r#"{"properties": {"items": {"type": "array", "uniqueItems": true, "maxItems": 5}}}"#,
            r#"{"properties": {"global": {"type": "object"}}}"#,
        ];
        files.insert(
            format!("{at}values.schema.json"),
            random.pick(&schemas).to_owned(),
        );
    }
}
