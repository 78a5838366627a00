//! Values of charts and of users. A key's name determines the usual type of its value.

use driftless_harness::random::Random;
use std::fmt::Write as _;

/// Keys whose values are usually strings.
pub const TEXTS: [&str; 4] = ["name", "image", "host", "note"];
/// Keys whose values are usually numbers.
pub const NUMBERS: [&str; 3] = ["replicas", "port", "size"];
/// Keys whose values are usually lists.
pub const LISTS: [&str; 3] = ["items", "args", "hosts"];
/// Keys whose values are usually maps.
pub const TABLES: [&str; 4] = ["labels", "env", "a", "b"];
/// Keys whose values are usually booleans.
pub const SWITCHES: [&str; 3] = ["on", "off", "enabled"];
/// Keys with values of any type.
pub const ANYTHING: [&str; 2] = ["c", "d"];
/// Keys that are shared by all charts of a release.
const SHARED: [&str; 3] = ["global", "tags", "exports"];
/// The names of subcharts.
pub const SUBCHARTS: [&str; 8] = ["s00", "s01", "s02", "s10", "s11", "ali", "b", "s00-x"];

const SCALARS: [&str; 40] = [
    "1",
    "0",
    "-7",
    "1.5",
    "text",
    "null",
    "null",
    "~",
    "\"\"",
    "1000000",
    "yes",
    "off",
    "0x1f",
    "0o17",
    "017",
    "1_000",
    "1e3",
    "2001-01-01",
    "12:30",
    "{}",
    "[]",
    "{a: null}",
    "[1, {a: 2}, null]",
    "'quoted'",
    "\"esc\\t\\u00e9\"",
    "two words",
    "a:b",
    "12345678901234567890",
    "0.1",
    "1e21",
    "-0",
    ".5",
    "+1",
    "1.0",
    "!!str 5",
    "\"{{ .Chart.Name }}\"",
    "'{{ .Values.name }}-x'",
    "é ☃",
    "\"<a> & 'b'\"",
    "true",
];

/// Returns a map in YAML with values of the keys' usual types, indented by `depth` levels.
fn table(random: &mut Random, depth: usize, share: usize, user: bool) -> String {
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    let groups: [&[&str]; 8] = [
        &TEXTS, &NUMBERS, &LISTS, &TABLES, &SWITCHES, &ANYTHING, &SHARED, &SUBCHARTS,
    ];
    for (group, keys) in groups.iter().enumerate() {
        for key in *keys {
            // `b` is both a map's key and a subchart's name.
            if !random.percent(share) || (group == 7 && out.contains(&format!("\n{indent}{key}:")))
            {
                continue;
            }
            let _ = write!(out, "{indent}{key}:");
            value(random, &mut out, key, group, depth, user);
        }
    }
    out
}

fn value(random: &mut Random, out: &mut String, key: &str, group: usize, depth: usize, user: bool) {
    // A subchart's values and shared values must be maps.
    let odd = match group {
        0 | 1 | 4 | 5 => 40,
        2 | 3 => 10,
        _ => 2,
    };
    if random.below(1_000) < odd * if user { 2 } else { 1 } {
        let odd = if random.percent(60) {
            "null"
        } else {
            random.pick(&SCALARS)
        };
        let _ = writeln!(out, " {odd}");
        return;
    }
    let simple = match group {
        0 => random.pick(&[
            "web",
            "\"x y\"",
            "nginx:1.25",
            "a.example.com",
            "\"\"",
            "v1.2.3",
            "'{{ .Release.Name }}'",
            "Äpfel",
            "{{ .Chart.Name }}",
        ]),
        1 => random.pick(&["1", "3", "8080", "0", "1000000", "2.5", "\"80\""]),
        2 => random.pick(&[
            "[a, b]",
            "[]",
            "[1, 2, 3]",
            "[{name: x, port: 80}, {name: y}]",
            "[c, a, b, a]",
            "[[1], [2, 3]]",
        ]),
        4 => random.pick(&["true", "false", "false", "\"true\"", "null"]),
        5 => random.pick(&SCALARS),
        _ if key == "tags" => random.pick(&[
            "{front: true, back: false}",
            "{front: false}",
            "{back: null, front: true}",
            "{}",
            "{front: \"x\"}",
        ]),
        _ => return nested(random, out, key, depth, user),
    };
    // A template in braces is not a plain scalar in YAML.
    let simple = if simple.starts_with("{{") {
        "plain"
    } else {
        simple
    };
    let _ = writeln!(out, " {simple}");
}

fn nested(random: &mut Random, out: &mut String, key: &str, depth: usize, user: bool) {
    if depth >= 3 {
        let _ = writeln!(
            out,
            " {}",
            random.pick(&["{}", "{x: 1, y: two}", "{a: {b: null}}"])
        );
        return;
    }
    if key == "exports" {
        let _ = write!(
            out,
            "\n{0}  data:\n{1}",
            "  ".repeat(depth),
            filled(random, depth + 2, user)
        );
        return;
    }
    let _ = write!(out, "\n{}", filled(random, depth + 1, user));
}

/// Returns a map that is not empty.
fn filled(random: &mut Random, depth: usize, user: bool) -> String {
    let text = table(random, depth, 28 / depth.max(1), user);
    if text.is_empty() {
        return format!(
            "{}x: {}\n",
            "  ".repeat(depth),
            random.pick(&["1", "null", "t"])
        );
    }
    text
}

/// Returns a chart's values.yaml.
pub fn own(random: &mut Random) -> String {
    let text = table(random, 0, 45, false);
    let before = random.pick(&["", "", "", "# Values\n", "---\n", "\u{feff}"]);
    let after = random.pick(&["", "", "", "", "\n", "---\nname: second\n", "...\n"]);
    match text.is_empty() {
        true => random
            .pick(&["", "{}\n", "# nothing\n", "null\n"])
            .to_owned(),
        false => format!("{before}{text}{after}"),
    }
}

/// Returns a user's files of values, and flags.
pub fn user(random: &mut Random) -> (Vec<String>, Vec<(&'static str, String)>) {
    let files = random.pick(&[0, 0, 1, 1, 1, 2]);
    let files = (0..files).map(|_| table(random, 0, 20, true)).collect();
    let flags = random.pick(&[0, 0, 0, 1, 1, 2, 3]);
    (files, (0..flags).map(|_| flag(random)).collect())
}

fn flag(random: &mut Random) -> (&'static str, String) {
    if random.percent(2) {
        let odd = [
            "a..b=1",
            "=x",
            "items[",
            "items[-1]=x",
            "a",
            "a=1,",
            "items[0",
            "a.b",
            ",",
            "items[0]x=1",
            "labels=,x=1",
            "",
        ];
        return ("set", random.pick(&odd).to_owned());
    }
    let path = path(random);
    match random.below(10) {
        0..=5 => {
            let values = [
                "1",
                "0",
                "007",
                "text",
                "true",
                "null",
                "",
                "a\\,b",
                "{x,y}",
                "{}",
                "{1,null,true}",
                "1.5",
                "1e3",
                "9223372036854775808",
                "FALSE",
                "a=b",
                "x\\.y",
            ];
            let mut text = format!("{path}={}", random.pick(&values));
            if random.percent(20) {
                let _ = write!(text, ",{}=2", self::path(random));
            }
            ("set", text)
        }
        6 => (
            "set-string",
            format!(
                "{path}={}",
                random.pick(&["1", "true", "null", "a b", "{p,q}"])
            ),
        ),
        7 | 8 => (
            "set-json",
            format!(
                "{path}={}",
                random.pick(&[
                    "1",
                    "[1,2.5,null]",
                    "{\"x\":{\"y\":1}}",
                    "null",
                    "\"t\"",
                    "{}",
                    "1e3",
                    " true "
                ])
            ),
        ),
        _ => (
            "set-literal",
            format!(
                "{path}={}",
                random.pick(&["a,b=c", "{x}", "", "\\n", "null"])
            ),
        ),
    }
}

fn path(random: &mut Random) -> String {
    let below = |random: &mut Random| match random.below(5) {
        0 => random.pick(&TEXTS).to_owned(),
        1 => random.pick(&NUMBERS).to_owned(),
        2 => format!(
            "{}.{}",
            random.pick(&TABLES),
            random.pick(&["x", "k\\.io/v", "y"])
        ),
        3 => format!(
            "{}{}",
            random.pick(&LISTS),
            random.pick(&["[0]", "[1]", "[0].name", "", "[3]"])
        ),
        _ => random.pick(&SWITCHES).to_owned(),
    };
    match random.below(6) {
        0 => format!("global.{}", below(random)),
        1 => format!("{}.{}", random.pick(&SUBCHARTS), below(random)),
        2 => format!("tags.{}", random.pick(&["front", "back"])),
        _ => below(random),
    }
}
