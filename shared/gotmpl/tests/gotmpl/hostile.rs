//! Templates that exceed a limit: each ends with an error, soon and within its budget.

use driftless_gotmpl::{Error, ErrorKind, Functions, Limits, Map, Templates, Value};

const LIMITS: Limits = Limits {
    steps: 200_000,
    depth: 100,
    bytes: 1 << 20,
    nodes: 10_000,
};

/// Runs on a thread with the stack that deep templates need.
fn run(template: &'static str, data: fn() -> Value) -> Result<Vec<u8>, Error> {
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || {
            let mut set = Templates::new(Functions::new());
            set.parse("t", template)?;
            set.execute("t", data(), &(), LIMITS)
        })
        .unwrap()
        .join()
        .expect("no panic")
}

fn nothing() -> Value {
    Value::Nil
}

/// Returns a map whose printed form is 2^40 times as long as itself.
fn bomb() -> Value {
    let mut value = Value::str("x");
    for _ in 0..40 {
        value = Value::map([("a", value.clone()), ("b", value)]);
    }
    value
}

/// Returns a map that contains itself.
fn ring() -> Value {
    let map = Map::new();
    map.insert("self", Value::Map(map.clone()));
    Value::Map(map)
}

#[test]
fn budgets_end_endless_templates() {
    type Data = fn() -> Value;
    let cases: [(&str, Data); 9] = [
        ("{{range 9000000000}}{{end}}", nothing),
        (
            "{{range 9000000000}}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{end}}",
            nothing,
        ),
        ("{{printf \"%1000000d%1000000d%1000000d\" 1 1 1}}", nothing),
        ("{{printf \"%.1000000f %.1000000f\" 1.5 1.5}}", nothing),
        ("{{.}}", bomb),
        ("{{print . .}}", bomb),
        ("{{printf \"%v\" .}}", bomb),
        ("{{html .}}", bomb),
        (
            "{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}",
            nothing,
        ),
    ];
    for (template, data) in cases {
        let error = run(template, data).expect_err(template);
        assert_eq!(error.kind, ErrorKind::Budget, "{template}: {error}");
    }
}

#[test]
fn depth_is_limited() {
    let error = run(
        "{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
        nothing,
    )
    .expect_err("it calls itself");
    assert!(
        error
            .message
            .contains("exceeded maximum template depth (100)"),
        "{error}"
    );
}

/// Each level of templates that call each other has separate variables: they are in memory
/// together.
#[test]
fn variables_are_limited() {
    let names: String = (0..1_000).map(|n| format!("{{{{$a{n}:=1}}}}")).collect();
    let calls = |times: &str| {
        format!(
            "{{{{define \"a\"}}}}{{{{if .}}}}{names}{{{{template \"a\" {times}}}}}{{{{end}}}}{{{{end}}}}{{{{template \"a\" 1}}}}"
        )
    };
    let endless: &'static str = Box::leak(calls("1").into_boxed_str());
    let error = run(endless, nothing).expect_err("too many variables");
    assert_eq!(error.kind, ErrorKind::Budget);
    assert!(error.message.contains("budget of variables"), "{error}");
    // Variables that are out of scope are not counted.
    let once = "{{define \"b\"}}{{$y := 1}}{{end}}{{range 4000}}{{$x := 1}}{{if $x}}{{$z := 2}}{{end}}{{template \"b\"}}{{end}}";
    assert!(run(once, nothing).is_ok());
}

/// A thousand lookups of one of a hundred thousand variables.
#[test]
fn variables_are_found_among_many() {
    let names: String = (0..50_000).map(|n| format!("{{{{$a{n}:=1}}}}")).collect();
    let text = format!("{names}{{{{range 20000}}}}{{{{$x := $a0}}}}{{{{end}}}}");
    let mut set = Templates::new(Functions::new());
    set.parse("t", &text).unwrap();
    let limits = Limits {
        nodes: 100_000,
        // Five for each variable, and seven for each turn.
        steps: 500_000,
        ..LIMITS
    };
    assert!(set.execute("t", Value::Nil, &(), limits).is_ok());
}

#[test]
fn self_containing_values_are_printed_to_a_depth() {
    let text = run("{{.}}", ring).unwrap();
    assert!(text.len() < 10_000);
}

#[test]
fn nested_parentheses_are_refused() {
    let deep: &'static str = Box::leak(
        format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000)).into_boxed_str(),
    );
    let error = run(deep, nothing).expect_err("too deep");
    assert_eq!(error.kind, ErrorKind::Parse);
}

#[test]
fn nested_blocks_are_refused_or_rendered() {
    let deep: &'static str = Box::leak(
        format!("{}{}", "{{if 1}}".repeat(50_000), "{{end}}".repeat(50_000)).into_boxed_str(),
    );
    assert!(run(deep, nothing).is_err());
}

#[test]
fn no_width_is_too_much_for_a_verb() {
    let mut set = Templates::new(Functions::new());
    for verb in "vTtbcdoOqxXUeEfFgGsz".chars() {
        for flags in ["", "0", "-", "#+"] {
            for size in ["70000", ".70000"] {
                let format = format!("%{flags}{size}{verb}");
                set.parse(
                    "t",
                    &format!("{{{{range $_, $v := .}}}}{{{{printf \"{format}\" $v}}}}{{{{end}}}}"),
                )
                .unwrap();
                let data = [
                    Value::int(-5),
                    Value::Float(1.0e-300),
                    Value::str("é"),
                    Value::Bool(true),
                ];
                let limits = Limits {
                    bytes: 16 << 20,
                    ..LIMITS
                };
                let done = set.execute("t", Value::list(data.to_vec()), &(), limits);
                assert!(done.is_ok(), "{format}: {done:?}");
            }
        }
    }
}

/// A small deterministic generator of numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Templates with bytes dropped, doubled, moved: any of them is answered without a panic.
#[test]
fn mutated_templates_never_panic() {
    const SEEDS: [&str; 8] = [
        "{{range $i, $e := .list}}{{if gt $i 1}}{{break}}{{end}}{{$e | printf \"%5.2f|%-8q\" 1.5}}{{else}}{{end}}",
        "{{define \"a\"}}[{{.}}]{{end}}{{template \"a\" .}}{{block \"b\" .}}{{end}}",
        "{{with $x := .map}}{{$x.a.b}}{{else with .name}}{{slice . 1 2}}{{end}}",
        "{{- /* c */ -}} {{`raw`}} {{'\\u00e9'}} {{0x1p-2}} {{1_000}} {{2+3i}}",
        "{{eq .i 1 2}} {{index .map \"a\"}} {{html .}} {{js .}} {{urlquery .}} {{len .}}",
        "{{printf \"%[2]*[1]d %#v %+q %x %U %t %e %08.3f\" 1 2 . .name .list 65 true 1.0 2.5}}",
        "{{and .a (or .b (not .c)) | print | println}} {{(index .list 0).x}}",
        "{{if .a}}1{{else if .b}}2{{else}}3{{end}}{{$y := 1}}{{$y = 2}}{{$y}}",
    ];
    const PIECES: [&str; 14] = [
        "{{", "}}", "(", ")", "|", "\"", "`", "'", ".", "$", "-}}", "{{-", "/*", "é",
    ];
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let data = Value::map([
        ("name", Value::str("n")),
        ("i", Value::int(2)),
        ("list", Value::list(vec![Value::Float(1.5), Value::Nil])),
        ("map", Value::map([("a", Value::str("b"))])),
    ]);
    let limits = Limits {
        steps: 2_000,
        depth: 20,
        bytes: 20_000,
        nodes: 100,
    };
    for _ in 0..4_000 {
        let mut text: Vec<char> = SEEDS[dice.roll(SEEDS.len())].chars().collect();
        for _ in 0..=dice.roll(4) {
            let at = dice.roll(text.len().max(1)).min(text.len());
            match dice.roll(4) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => text.truncate(at),
                2 => {
                    let piece = PIECES[dice.roll(PIECES.len())].chars();
                    text.splice(at..at, piece);
                }
                _ => {
                    let end = (at + dice.roll(12)).min(text.len());
                    let copy: Vec<char> = text[at..end].to_vec();
                    let to = dice.roll(text.len() + 1);
                    text.splice(to..to, copy);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let mut set = Templates::new(Functions::new());
        if set.parse("t", &text).is_ok() {
            let _ = set.execute("t", data.clone(), &(), limits);
        }
    }
}
