//! The functions of templates: expressions whose answers the real Helm has written
//! (`tests/oracle/functions`).

use driftless_helm::{
    Chart, ChartFile, Compat, HelmError, LoadLimits, Options, Render, TemplateOutcome, values,
};
use std::path::Path;

const NOW: i64 = 1_790_000_000;

/// Renders a chart with this one template.
fn render(template: &str, compat: Compat) -> Result<String, HelmError> {
    let file = |name: &str, data: &str| ChartFile {
        name: name.to_owned(),
        data: data.as_bytes().into(),
    };
    let files = vec![
        file(
            "Chart.yaml",
            "apiVersion: v2\nname: functions\nversion: 0.1.0\nmaintainers: [{name: Ann, email: a@example.com}]\n",
        ),
        file("templates/t.yaml", template),
    ];
    let chart = Chart::from_files(files, compat, &LoadLimits::default())?;
    let options = Options {
        compat,
        now: (NOW, 0),
        entropy: [3; 32],
        ..Options::new("r", "default")
    };
    match Render::new(&chart, &values::Table::new(), &options).texts()? {
        TemplateOutcome::Done(texts) => {
            let text = texts.get("functions/templates/t.yaml").unwrap();
            Ok(String::from_utf8(text.clone()).unwrap())
        }
        TemplateOutcome::Needs(needs) => panic!("{needs:?}"),
    }
}

#[test]
fn functions_return_the_results_of_helm() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/functions");
    let cases = std::fs::read_to_string(directory.join("cases.txt")).unwrap();
    let answers = std::fs::read_to_string(directory.join("answers.txt")).unwrap();
    assert_eq!(cases.lines().count(), answers.lines().count());
    let bad: Vec<String> = cases
        .lines()
        .zip(answers.lines())
        .filter_map(|(case, want)| {
            let got = render(&format!("{{{{ toJson ({case}) }}}}"), Compat::Helm3);
            let got = got.unwrap_or_else(|error| error.to_string());
            (got != want).then(|| format!("{case}\n  want {want}\n  got  {got}"))
        })
        .collect();
    println!(
        "{} / {} answers",
        cases.lines().count() - bad.len(),
        cases.lines().count()
    );
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn toml_has_gos_names_of_fields() {
    // `BurntSushi/toml` v1.5.0 ignores tags of JSON; Helm 4 gives templates a map with the same
    // names.
    for compat in [Compat::Helm3, Compat::Helm4] {
        let text = render("{{ toToml (dict \"m\" $.Chart.Maintainers) }}", compat).unwrap();
        let want = "[[m]]\n  Email = \"a@example.com\"\n  Name = \"Ann\"\n  URL = \"\"\n";
        assert_eq!(sorted(&text), sorted(want), "{compat:?}: {text}");
    }
}

/// Returns the lines of a string in alphabetical order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let template =
        "{{ randAlphaNum 20 }} {{ uuidv4 }} {{ genPrivateKey \"ecdsa\" | sha256sum }} {{ now }}";
    let first = render(template, Compat::Helm4).unwrap();
    assert_eq!(first, render(template, Compat::Helm4).unwrap());
    assert!(first.ends_with("2026-09-21 14:13:20 +0000 UTC"), "{first}");
}

#[test]
fn certificates_are_signed_by_their_authority() {
    let template = "{{ $key := genPrivateKey \"ecdsa\" }}{{ $ca := genCAWithKey \"ca\" 30 $key }}\
        {{ $c := genSignedCertWithKey \"x\" (list \"10.0.0.1\") (list \"a.b\") 30 $ca (genPrivateKey \"ed25519\") }}\
        {{ $d := buildCustomCert (b64enc $c.Cert) (b64enc $c.Key) }}{{ eq $d.Cert $c.Cert }}\
        {{ regexFind \"^-----BEGIN [A-Z ]+\" $c.Key }}";
    let text = render(template, Compat::Helm3).unwrap();
    assert_eq!(text, "true-----BEGIN PRIVATE KEY");
    let wrong = "{{ $ca := genCAWithKey \"ca\" 30 (genPrivateKey \"ecdsa\") }}\
        {{ $other := buildCustomCert (b64enc $ca.Cert) (b64enc (genPrivateKey \"ecdsa\")) }}\
        {{ genSignedCertWithKey \"x\" nil nil 30 $other (genPrivateKey \"ecdsa\") }}";
    let error = render(wrong, Compat::Helm3).unwrap_err().to_string();
    assert!(
        error.contains("doesn't match parent's PublicKey"),
        "{error}"
    );
}

#[test]
fn helm_4_has_more_functions() {
    let template = "{{ mustToDuration \"90m\" }} {{ durationHours 5400 }} {{ durationRoundTo \"1h40m\" \"1h\" }}";
    assert_eq!(
        render(template, Compat::Helm4).unwrap(),
        "1h30m0s 1.5 2h0m0s"
    );
    assert!(render(template, Compat::Helm3).is_err());
}
