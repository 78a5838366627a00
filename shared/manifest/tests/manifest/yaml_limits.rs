//! Hostile files fail quickly with an error that names the limit, and errors have the position but
//! never the content.

use std::time::Duration;

use driftless_fuel::{Fuel, FuelKind, FuelLimits, OutOfFuel};
use driftless_manifest::yaml::{
    Budget, Dialect, Limits, YamlErrorKind, documents, documents_within, parse, parse_path,
    parse_with_comments, parse_within, to_string,
};

/// Returns the CPU time of this thread; unlike a clock, it stops while the machine does other work.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn budget_of(text: &str) -> Option<Budget> {
    let begin = cpu_time();
    let result = parse(text.as_bytes(), "in.yaml", &Limits::default());
    let took = cpu_time() - begin;
    assert!(took < Duration::from_secs(20), "took {took:?}");
    match result.err()?.kind {
        YamlErrorKind::Budget { unit, .. } => Some(unit),
        other => panic!("{other}"),
    }
}

fn lines(count: usize, line: &dyn Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

#[test]
fn limits_of_aliases_and_anchors_hold() {
    let bomb = (1..20).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        format!("{text}a{i}: &a{i} [{refs}]\n")
    });
    let long = format!(
        "a: &a \"{}\"\nb: [{}]\n",
        "x".repeat(1 << 20),
        vec!["*a"; 100].join(", ")
    );
    let nested = format!(
        "{}x{}",
        (0..900).map(|i| format!("&a{i} [")).collect::<String>(),
        "]".repeat(900)
    );
    let anchors = format!(
        "{nested}\n---\n{}\n*z\n",
        lines(2000, &|i| format!("- &a{i} x\n"))
    );
    assert!(
        parse(nested.as_bytes(), "in.yaml", &Limits::default()).is_ok(),
        "nothing refers to the anchors"
    );
    assert!(parse(anchors.as_bytes(), "in.yaml", &Limits::default()).is_err());

    let cases = [
        ("flow nesting", "[".repeat(100_000), Budget::Depth),
        ("flow mappings", "{a: ".repeat(100_000), Budget::Depth),
        (
            "block lists",
            format!("{}x", "- ".repeat(100_000)),
            Budget::Depth,
        ),
        (
            "block mappings",
            lines(5_000, &|i| format!("{}a:\n", " ".repeat(i))),
            Budget::Depth,
        ),
        ("explicit keys", "? ".repeat(100_000), Budget::Depth),
        ("documents", "---\n".repeat(1_000_000), Budget::Documents),
        ("nodes", "- \n".repeat(1_100_000), Budget::Nodes),
        (
            "small mappings",
            "- {a: 1}\n".repeat(200_000),
            Budget::Nodes,
        ),
        ("alias bomb", bomb, Budget::Nodes),
        (
            "long tag",
            format!(
                "%TAG !e! {}\n---\n{}",
                "w".repeat(1 << 20),
                "- !e!x\n".repeat(100_000)
            ),
            Budget::Bytes,
        ),
        ("long alias", long, Budget::Bytes),
        ("bytes", "#".repeat(17 << 20), Budget::Bytes),
    ];
    for (name, text, budget) in cases {
        assert_eq!(budget_of(&text), Some(budget), "{name}");
    }
}

/// Repeated parses end with the caller's fuel, even if each of them fails: a file of a few hundred
/// bytes may have a hundred thousand values before its error.
#[test]
fn texts_spend_the_fuel_of_the_caller() {
    let fuel = |limits| Fuel::new(limits);
    let steps = FuelLimits {
        steps: 10_000_000,
        ..FuelLimits::NONE
    };
    let limits = Limits {
        nodes: 100_000,
        ..Limits::default()
    };
    let bomb = (1..9).fold("a0: &a0 [x]\n".to_owned(), |text, i| {
        let refs = vec![format!("*a{}", i - 1); 10].join(", ");
        format!("{text}a{i}: &a{i} [{refs}]\n")
    });
    let tank = fuel(steps);
    let mut error = None;
    for _ in 0..1_000 {
        error = parse_within(bomb.as_bytes(), "in.yaml", &limits, &tank).err();
        match error.as_ref().map(|error| &error.kind) {
            Some(YamlErrorKind::Fuel(_)) => break,
            Some(YamlErrorKind::Budget { .. }) => tank.give_back(usize::MAX, 0),
            other => panic!("{other:?}"),
        }
    }
    let out = OutOfFuel {
        which: FuelKind::Steps,
        limit: 10_000_000,
        of_tank: false,
    };
    let error = error.unwrap();
    assert_eq!(error.kind, YamlErrorKind::Fuel(out));
    assert!(error.to_string().starts_with("in.yaml:"), "{error}");
    assert!(
        error.to_string().contains("more than 10000000 steps"),
        "{error}"
    );

    // Nodes count until they are given back.
    let nodes = FuelLimits {
        nodes: 1_000,
        ..FuelLimits::NONE
    };
    let (tank, text) = (fuel(nodes), b"{a: [1, 2, 3], b: &b 4, c: *b}");
    for _ in 0..10 {
        let before = tank.nodes_spent();
        let values = documents_within(text, "in.yaml", Dialect::V2, &limits, &tank).unwrap();
        assert_eq!(values.len(), 1);
        // Five for the mapping, a list of three, three keys, two scalars, and the copy for the
        // anchor.
        assert_eq!(tank.nodes_spent() - before, 5 + 4 + 3 + 2 + 1);
        tank.give_back(tank.nodes_spent() - before, 0);
    }
    let all = (0..1_000).find_map(|_| parse_within(text, "in.yaml", &limits, &tank).err());
    assert!(matches!(
        all.unwrap().kind,
        YamlErrorKind::Fuel(OutOfFuel {
            which: FuelKind::Nodes,
            ..
        })
    ));
}

/// The deepest values are copied and dropped by recursion on a stack of 512 KiB, and parsed on the
/// stack of a worker of an asynchronous runtime.
#[test]
fn the_deepest_values_fit_on_small_stacks() {
    fn on<T: Send + 'static>(stack: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::Builder::new().stack_size(stack).spawn(work);
        thread.unwrap().join().unwrap()
    }
    let levels = Limits::default().depth;
    let texts = [
        "[".repeat(levels) + &"]".repeat(levels),
        "{a: ".repeat(levels) + "x" + &"}".repeat(levels),
        "- ".repeat(levels) + "x",
        format!(
            "a: &a {}{}\nb: *a\n",
            "[".repeat(levels - 1),
            "]".repeat(levels - 1)
        ),
        "{<<: ".repeat(levels - 1) + "{a: b}" + &"}".repeat(levels - 1),
    ];
    for text in texts {
        let (nodes, values) = on(2 << 20, move || {
            let text = text.as_bytes();
            let path = ["a"; 1_000];
            assert!(parse_path(text, "in.yaml", &Limits::default(), &path).is_ok());
            assert!(documents(text, "in.yaml", Dialect::V3, &Limits::default()).is_ok());
            let nodes = parse(text, "in.yaml", &Limits::default()).unwrap();
            let values = documents(text, "in.yaml", Dialect::V2, &Limits::default()).unwrap();
            (nodes, values)
        });
        on(512 << 10, move || {
            assert!(to_string(&values[0]).len() > 2);
            drop((nodes.clone(), values.clone()));
            drop((nodes, values));
        });
    }
}

#[test]
fn large_but_simple_texts_take_linear_time() {
    let begin = cpu_time();
    for text in [
        "a ".repeat(2 << 20),
        format!("\"{}\"", "a\\n".repeat(2 << 20)),
        format!("[{}]", "a, ".repeat(300_000)),
        (0..200_000).map(|i| format!("k{i}: v\n")).collect(),
        format!("a: {}", "x\n  ".repeat(1 << 20)),
        "# c\n".repeat(1 << 20),
        format!("a: |\n{}", "  x\n".repeat(1 << 20)),
        lines(100_000, &|i| format!("%TAG !e{i}! x\n"))
            + "---\n"
            + &lines(300_000, &|i| format!("- !e{}!x\n", i % 100_000)),
    ] {
        assert!(documents(text.as_bytes(), "in.yaml", Dialect::V2, &Limits::default()).is_ok());
    }
    let took = cpu_time() - begin;
    assert!(took < Duration::from_secs(60), "took {took:?}");
}

#[test]
fn errors_name_the_place_and_no_content() {
    let cases = [
        (
            "a: 1\nb: 2\na: s3cret\n",
            "f.yaml:3:1: duplicate key \"a\" in one mapping (first in line 1)",
        ),
        (
            "a: *s3cret\n",
            "f.yaml:1:4: an alias to an anchor that was not defined before it",
        ),
        (
            "a: !!int s3cret\n",
            "f.yaml:1:4: the value does not fit its tag !!int",
        ),
        (
            "a: 's3cret\n",
            "f.yaml:1:4: not valid YAML: expected a closing quote",
        ),
        (
            "k: s3cret: x\n",
            "f.yaml:1:10: not valid YAML: a mapping value (:) is not allowed here (quote a value that contains ': ')",
        ),
        (
            "a:\n\t- s3cret\n",
            "f.yaml:2:1: not valid YAML: a character that cannot begin anything here (quote the value, or indent with spaces)",
        ),
        (
            "<<: s3cret\n",
            "f.yaml:1:5: a merge key (<<) needs a mapping or a list of mappings",
        ),
        (
            "a: .inf\n",
            "f.yaml:1:4: infinity or not-a-number, which JSON cannot hold",
        ),
        (
            "[a]: s3cret\n",
            "f.yaml:1:1: a mapping key that is a mapping or a list, expected a string, a number or a boolean",
        ),
        (
            "a: s3cret\n\u{7}",
            "f.yaml:2:1: not valid YAML: a control character",
        ),
    ];
    for (text, want) in cases {
        let error =
            documents(text.as_bytes(), "f.yaml", Dialect::V2, &Limits::default()).expect_err(text);
        assert_eq!(error.to_string(), want);
    }
    let error = parse(b"a: \xff", "f.yaml", &Limits::default()).expect_err("no UTF-8");
    assert_eq!(error.to_string(), "f.yaml:1:1: the file is not UTF-8 text");
}

#[test]
fn empty_documents_are_skipped_by_documents_and_kept_by_parse() {
    let text = b"---\n# nothing\n---\na: 1\n---\n---\n~\n...\n";
    let nodes = parse(text, "f", &Limits::default()).expect("nodes");
    assert_eq!(
        nodes.iter().map(|n| n.is_empty()).collect::<Vec<_>>(),
        [true, false, true, false]
    );
    let values = documents(text, "f", Dialect::V2, &Limits::default()).expect("values");
    assert_eq!(
        values,
        [serde_json::json!({"a": 1}), serde_json::Value::Null]
    );
}

#[test]
fn comments_come_in_the_order_of_the_text() {
    let text = b"# one\na: \"#no\" # two\nb: |  # three\n  # no\n  # four is none\n# five\nc: [x, # six\n y]";
    let (_, comments) = parse_with_comments(text, "f", &Limits::default()).expect("nodes");
    let seen: Vec<_> = comments
        .iter()
        .map(|c| (c.line, c.column, c.text.as_str(), c.own_line))
        .collect();
    assert_eq!(
        seen,
        [
            (1, 1, " one", true),
            (2, 10, " two", false),
            (3, 7, " three", false),
            (6, 1, " five", true),
            (7, 8, " six", false)
        ]
    );
}
