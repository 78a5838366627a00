//! `driftless gotemplate-vectors FILE`: renders small charts of one template each, for the corpus
//! of templates. FILE has one JSON object per line (name, template, values, user_values, set,
//! files). The output has one line for each of them: `{"name", "got"}`, `{"name", "got_b64"}` for
//! output that is not UTF-8, or `{"name", "error"}`.

use crate::error::Error;
use crate::term;
use driftless_helm::{
    Capabilities, Chart, ChartFile, Compat, LoadLimits, Options, ReleaseInfo, Render,
    TemplateOutcome, values,
};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Render the vectors of a template corpus.
#[derive(clap::Args)]
pub struct Args {
    /// The vectors, one JSON object per line
    file: PathBuf,
    /// Render as Helm 4
    #[arg(long)]
    helm4: bool,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    template: String,
    #[serde(default)]
    values: String,
    #[serde(default)]
    user_values: Vec<String>,
    #[serde(default)]
    set: Vec<Set>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Set {
    kind: String,
    arg: String,
}

/// The Chart.yaml of every vector that has none.
const CHART: &str = r#"apiVersion: v2
name: vec
version: 0.1.0+b1
appVersion: "1.2.3"
description: A test chart
type: application
kubeVersion: ">=1.20.0-0"
home: https://example.com
icon: https://example.com/i.png
keywords: [one, two]
sources: [https://example.com/src]
annotations:
  example.com/a: anno
  b: "2"
maintainers:
- name: Ann
  email: ann@example.com
- name: Bob
  url: https://example.com/bob
"#;

/// Renders every vector of a file.
pub fn run(args: &Args) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or((0, 0), |d| (d.as_secs() as i64, d.subsec_nanos()));
    // A corpus has no secrets, so a constant seed is enough.
    let entropy = [7; 32];
    let compat = if args.helm4 {
        Compat::Helm4
    } else {
        Compat::Helm3
    };
    let shown = args.file.display();
    let text =
        std::fs::read_to_string(&args.file).map_err(|e| Error::caused_by(e).context(&shown))?;
    for (i, line) in text.lines().enumerate() {
        let vector: Vector = serde_json::from_str(line)
            .map_err(|e| Error::caused_by(e).context(format!("{shown}:{}", i + 1)))?;
        let answer = match render(&vector, compat, now, entropy) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(got) => json!({"name": vector.name, "got": got}),
                Err(e) => json!({"name": vector.name, "got_b64": base64(e.as_bytes())}),
            },
            Err(error) => json!({"name": vector.name, "error": error.message}),
        };
        term::result(&format!("{answer}\n"))?;
    }
    Ok(())
}

fn render(
    vector: &Vector,
    compat: Compat,
    now: (i64, u32),
    entropy: [u8; 32],
) -> Result<Vec<u8>, Error> {
    let mut files = BTreeMap::from([
        ("Chart.yaml", CHART),
        ("values.yaml", &vector.values),
        ("templates/t.txt", &vector.template),
    ]);
    files.extend(vector.files.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    let files = files.into_iter().map(|(name, data)| ChartFile {
        name: name.to_owned(),
        data: data.as_bytes().into(),
    });
    let chart = Chart::from_files(files.collect(), compat, &LoadLimits::default());
    let chart = chart.map_err(Error::caused_by)?;
    let user = user_values(vector, compat)?;
    let options = Options {
        compat,
        release: ReleaseInfo {
            name: "rel".to_owned(),
            namespace: "ns".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default()
            .with_kube_version("v1.34.0", compat)
            .map_err(Error::caused_by)?,
        now,
        entropy,
        lookups: None,
        limits: Default::default(),
        fuel: Default::default(),
    };
    match Render::new(&chart, &user, &options)
        .texts()
        .map_err(Error::caused_by)?
    {
        TemplateOutcome::Done(mut texts) => texts
            .remove("vec/templates/t.txt")
            .ok_or_else(|| Error::new("the template rendered to nothing")),
        TemplateOutcome::Needs(_) => Err(Error::new("a lookup without a cluster")),
    }
}

fn user_values(vector: &Vector, compat: Compat) -> Result<values::Table, Error> {
    let mut user = values::Table::new();
    for text in &vector.user_values {
        let read = values::read(text.as_bytes(), "values", compat).map_err(Error::caused_by)?;
        user = values::merge(user, read);
    }
    for set in &vector.set {
        let kind = match set.kind.as_str() {
            "set" => values::SetKind::Typed,
            "set-string" => values::SetKind::Text,
            "set-json" => values::SetKind::Json,
            "set-literal" => values::SetKind::Literal,
            other => return Err(Error::new(format!("a set of kind {other} is unknown"))),
        };
        values::set(&mut user, kind, &set.arg, compat, &|_| {
            Err("no files here".into())
        })
        .map_err(Error::caused_by)?;
    }
    Ok(user)
}

/// Encodes bytes in standard base64.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = 0u32;
        for i in 0..3 {
            group = group << 8 | u32::from(chunk.get(i).copied().unwrap_or(0));
        }
        for i in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}
