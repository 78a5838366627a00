//! Functions that parse strings of a chart: JSON, YAML and TOML, regular expressions, formats,
//! dates, versions.

use super::chart::options;
use driftless_helm::values::Table;
use driftless_helm::{Chart, ChartFile, Compat, LoadLimits, Render};
use std::path::Path;

/// Calls with `$a` and `$b`, which are the two parts of the input.
const CALLS: &[&str] = &[
    "fromYaml $a | toYaml",
    "fromYamlArray $a | toYaml",
    "fromJson $a | toJson",
    "fromJsonArray $a | toPrettyJson",
    "mustFromJson $a | toRawJson",
    "fromToml $a | toToml",
    "fromYaml $a | toToml",
    "fromYaml $a | toYamlPretty",
    "regexMatch $a $b",
    "regexFindAll $a $b -1",
    "regexReplaceAll $a $b $a",
    "regexReplaceAllLiteral $a $b $b",
    "regexSplit $a $b -1",
    "printf $a $b 12 -1.5 (list $b nil) true",
    "printf $a 1e300 $b",
    "toDate $a $b",
    "dateInZone $a (now) $b",
    "dateModify $a (now)",
    "duration $a",
    "durationRound $a",
    "date $a (toDate $a $b)",
    "semver $a",
    "semverCompare $a $b",
    "urlParse $a | urlJoin",
    "b64dec $a",
    "b32dec $a",
    "wrap 10 $a",
    "title $a | camelcase | snakecase | kebabcase",
    "abbrevboth 3 9 $a | trunc -4 | initials",
    "splitn $b 3 $a",
    "replace $a $b $b",
    "int64 $a",
    "float64 $a | toString",
    "toDecimal $a",
    "seq $a",
    "adler32sum $a | sha256sum",
    "decryptAES $a $b",
    "osBase $a | base | dir | clean",
    "tpl $a (dict \"b\" $b)",
    "round $a 3",
];

/// The separator of the two parts.
const MARK: &str = "\n%%\n";

/// Makes the call that the first byte selects; a second call must give the same result.
pub fn run(data: &[u8]) {
    let Some((call, rest)) = data.split_first() else {
        return;
    };
    let call = CALLS[usize::from(*call) % CALLS.len()];
    let text = String::from_utf8_lossy(rest).into_owned();
    super::on_large_stack(move || {
        let (a, b) = text.split_once(MARK).unwrap_or((&text, &text));
        let template =
            format!("{{{{- $a := .Values.a }}}}{{{{- $b := .Values.b }}}}{{{{ {call} }}}}");
        for compat in [Compat::Helm3, Compat::Helm4] {
            let first = render(&template, a, b, compat);
            assert_eq!(
                first,
                render(&template, a, b, compat),
                "second call of {call}"
            );
        }
    });
}

fn render(template: &str, a: &str, b: &str, compat: Compat) -> String {
    let file = |name: &str, text: &str| ChartFile {
        name: name.to_owned(),
        data: text.as_bytes().into(),
    };
    let files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        file("templates/t.yaml", template),
    ];
    let chart = Chart::from_files(files, compat, &LoadLimits::default()).expect("a chart");
    let values = [("a", a), ("b", b)].map(|(key, text)| (key.to_owned(), text.into()));
    let values = Table::from_iter(values);
    let done = Render::new(&chart, &values, &options(compat)).texts();
    format!("{done:?}")
}

/// Returns some inputs for every call.
pub fn seeds(_: &Path) -> Vec<Vec<u8>> {
    const TEXTS: &[&str] = &[
        "a: [1, 2.5, {b: &x null}]\nc: *x\n",
        "{\"a\": [1, -2e10, \"\\u00e9\"], \"b\": {\"c\": null}}",
        "t = 1979-05-27T07:32:00Z\n[a.b]\nc = [1, 2]\n[[d]]\ne = \"x\"\n",
        "^(a|b)*?[^\\pL\\d](?P<n>.{2,3})$\n%%\nab, -12 abc",
        "%+08.3f|%#x|%-10q|%[2]*[1]d|%v|%T|%%|%!|%U\n%%\ntext",
        "Mon Jan _2 15:04:05.000 MST 2006\n%%\nTue Feb  3 04:05:06.789 CET 2026",
        "2006-01-02T15:04:05Z07:00\n%%\nEurope/Berlin",
        ">=1.2.3-0 <2 || ~3.x, !=3.1\n%%\nv1.20.3-alpha.1+build",
        "https://user:pw@host:80/a%20b?q=1#f\n%%\n-1h2.5m",
        "{{ range $i, $e := list 1 2 }}{{ $e }}{{ end }}{{ .b }}\n%%\n12",
    ];
    let calls = 0..CALLS.len() as u8;
    let input = |call: u8, text: &&str| [&[call], text.as_bytes()].concat();
    calls
        .flat_map(|call| TEXTS.iter().map(move |text| input(call, text)))
        .collect()
}
