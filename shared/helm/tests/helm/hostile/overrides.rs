//! `--set` paths (case 15).

use super::engine::{Case, Done, answered, case, failed, refused};
use driftless_helm::Compat;
use driftless_helm::values::{self, SetKind, Table};

fn set(kind: SetKind, argument: &str) -> Done {
    let mut values = Table::new();
    let file = |path: &str| Err(format!("'{path}' is not read").into());
    values::set(&mut values, kind, argument, Compat::Helm3, &file).map_err(failed)?;
    Ok(format!("{} keys", values.len()))
}

pub fn cases() -> Vec<Case> {
    let many: String = (0..200).map(|i| format!("k{i}[65000]=1,")).collect();
    vec![
        case(
            "--set of a huge index",
            refused(&["--set", "maximum supported index"]),
            || set(SetKind::Typed, "a[999999999]=1"),
        ),
        case(
            "--set of an index beyond any number",
            refused(&["--set"]),
            || set(SetKind::Typed, "a[99999999999999999999999]=1"),
        ),
        case("--set of a million levels", refused(&["--set"]), || {
            set(SetKind::Typed, &format!("{}a=1", "a.".repeat(1_000_000)))
        }),
        case("--set of a million lists", refused(&["--set"]), || {
            set(SetKind::Typed, &format!("a{}=1", "[0]".repeat(1_000_000)))
        }),
        case(
            "--set of many large lists",
            refused(&["--set"]),
            move || set(SetKind::Typed, &many),
        ),
        case(
            "--set-string of a huge index",
            refused(&["--set-string", "maximum supported index"]),
            || set(SetKind::Text, "a[65537]=1"),
        ),
        case(
            "--set-literal of a huge index",
            refused(&["--set-literal"]),
            || set(SetKind::Literal, "a[999999999]=1"),
        ),
        case(
            "--set-json of 100,000 levels",
            refused(&["--set-json"]),
            || {
                let deep = format!("a={}{}", "[".repeat(100_000), "]".repeat(100_000));
                set(SetKind::Json, &deep)
            },
        ),
        case(
            "--set-file of a path that is not given",
            refused(&["is not read"]),
            || set(SetKind::File, "a=/etc/passwd"),
        ),
        case(
            "--set of a list of a million",
            answered(&["1 keys"]),
            || {
                set(
                    SetKind::Typed,
                    &format!("a={{{}1}}", "1,".repeat(1_000_000)),
                )
            },
        ),
    ]
}
