//! Charts: variables, keys, nested lists, values.

use super::texts::{alias_bomb, lines};
use super::{Case, refused, succeeds};

const TEMPLATE: &[&str] = &["template", "rel", "."];
const CHART: &str = "apiVersion: v2\nname: top\nversion: 1.0.0\n";

/// Returns a chart with one template.
pub fn of_template(text: String) -> Vec<(&'static str, String)> {
    vec![("Chart.yaml", CHART.to_owned()), ("templates/x.yaml", text)]
}

pub fn cases() -> Vec<Case> {
    const STEPS: &[&str] = &[
        "templates/x.yaml:1:",
        "the template's budget of steps is used up",
    ];
    const BYTES: &[&str] = &[
        "templates/x.yaml:1:",
        "the template's budget of bytes is used up",
    ];
    const KEYS: &[&str] = &[
        "templates/x.yaml:1:",
        "more new keys than the limit of one chart",
    ];
    let variables = lines(100_000, |at| format!("{{{{$a{at}:=1}}}}"));
    let tags = format!(
        "%TAG !e! {}\n---\na:\n{}",
        "w".repeat(1_000_000),
        "- !e!x\n".repeat(100_000)
    );
    vec![
        refused(
            "100,000 variables and a loop that reads the first",
            TEMPLATE,
            of_template(variables + "{{range 9000000}}{{$x := $a0}}{{end}}"),
            STEPS,
        ),
        succeeds(
            "50,000 variables that are read 50,000 times",
            TEMPLATE,
            of_template(
                "a: ".to_owned()
                    + &lines(50_000, |at| format!("{{{{$a{at}:=\"\"}}}}"))
                    + &"{{$a49999}}".repeat(50_000)
                    + "b\n",
            ),
        ),
        refused(
            "lists in lists, 2,800,000 levels deep",
            TEMPLATE,
            of_template("{{$l := list}}{{range 2800000}}{{$l = list $l}}{{end}}".to_owned()),
            BYTES,
        ),
        refused(
            "10,000 authorities",
            TEMPLATE,
            of_template("{{range 10000}}{{$x := genCA \"a\" 1}}{{end}}".to_owned()),
            KEYS,
        ),
        refused(
            "values of a long tag on 100,000 items",
            TEMPLATE,
            vec![
                ("Chart.yaml", CHART.to_owned()),
                ("values.yaml", tags),
                ("templates/x.yaml", "a: 1\n".to_owned()),
            ],
            &["values.yaml"],
        ),
        refused(
            "values of an alias bomb",
            TEMPLATE,
            vec![
                ("Chart.yaml", CHART.to_owned()),
                ("values.yaml", alias_bomb()),
                ("templates/x.yaml", "a: 1\n".to_owned()),
            ],
            &["values.yaml"],
        ),
    ]
}
