//! Go templates: the lexer, the parser and the executor with the built-in functions.

use driftless_gotmpl::{Functions, Limits, MissingKey, Templates, Value};
use std::path::Path;

/// The limits of an execution: no input takes long with them, even in an instrumented program.
pub const LIMITS: Limits = Limits {
    steps: 200_000,
    depth: 100,
    bytes: 4 << 20,
    nodes: 10_000,
};

/// Parses the input and executes it under each option for missing keys; a second execution must
/// give the same.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    super::on_large_stack(move || {
        for option in [MissingKey::Default, MissingKey::Zero, MissingKey::Error] {
            let mut templates = Templates::new(Functions::new()).missing_key(option);
            if templates.parse("t", &text).is_err() {
                return;
            }
            let execute = || {
                let done = templates.execute("t", values(), &(), LIMITS);
                done.map_err(|error| error.to_string())
            };
            assert_eq!(execute(), execute(), "second execution");
        }
    });
}

/// Returns a value of every type.
fn values() -> Value {
    let list = |items: &[i64]| Value::list(items.iter().copied().map(Value::int).collect());
    Value::map([
        ("list", list(&[1, 2, 3])),
        ("elist", list(&[])),
        (
            "map",
            Value::map([("a", Value::from("x")), ("b", Value::Nil)]),
        ),
        ("s", Value::from("text, \u{e9}")),
        ("bytes", Value::Bytes((*b"by\xfftes").into())),
        ("i", Value::int64(-7)),
        ("f", Value::Float(2.5e21)),
        ("t", Value::Bool(true)),
        ("nil", Value::Nil),
    ])
}

/// Returns the templates of the corpus.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let read = |name: &str| {
        let path = corpus.join("gotmpl").join(name);
        std::fs::read_to_string(path).expect("templates of the corpus")
    };
    let by_hand = read("cases.txt");
    let generated = read("generated.jsonl");
    let templates = generated.lines().take(200).map(|line| {
        let case: serde_json::Value = serde_json::from_str(line).expect("a case");
        case["template"].as_str().unwrap_or_default().to_owned()
    });
    let by_hand = by_hand.split("\n===\n").map(str::to_owned);
    by_hand.chain(templates).map(String::into_bytes).collect()
}
