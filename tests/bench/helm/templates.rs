//! One template, compiled once and executed often: by the template engine and by Go's own.

use crate::shared;
use driftless_gotmpl::{Functions, Limits, Templates, Value};
use driftless_harness::{process, tools};
use std::hint::black_box;
use std::process::Command;

const TEMPLATE: &str = "{{ range $i, $e := .list }}{{ if $e }}{{ printf \"%d=%v\" $i $e }}{{ else }}-{{ end }},{{ end }}{{ with .map }}{{ .a }}{{ index . \"b\" | printf \"%q\" }}{{ end }}{{ template \"t\" . }}{{ define \"t\" }}{{ len .list }}{{ end }}";
const EXECUTIONS: usize = 1_000;

/// Prints the time of a thousand executions by both.
pub fn report() {
    let mut set = Templates::new(Functions::new());
    set.parse("t0", TEMPLATE).expect("the template");
    let data = Value::map([
        ("list", Value::list((0..20).map(Value::int).collect())),
        (
            "map",
            Value::map([("a", Value::from("text")), ("b", Value::from("x"))]),
        ),
    ]);
    let ours = shared::repeat(|| {
        for _ in 0..EXECUTIONS {
            let text = set.execute("t0", data.clone(), &(), Limits::default());
            black_box(text.expect("the template executes"));
        }
    });
    let theirs = process::run(Command::new(tools::GOTMPL.path()).args(["bench", TEMPLATE]));
    let theirs: f64 = theirs.trim().parse().expect("nanoseconds");
    println!(
        "\n{EXECUTIONS} executions of a template that is compiled once: {:.2} ms, Go\u{2019}s text/template {:.2} ms: {:.1}x faster",
        ours * 1e3,
        theirs / 1e6,
        theirs / 1e9 / ours
    );
}
