//! Scalars that YAML or Go may misread, and other ways to write them.

use crate::generate::yaml::{Layout, Quote, Yaml, plain, text};
use driftless_harness::random::Random;

/// Returns a scalar that YAML or Go may misread.
pub fn scalar(random: &mut Random) -> Yaml {
    const PLAIN: [&str; 33] = [
        "1",
        "0",
        "-7",
        "8080",
        "1.0",
        "2.50",
        "1e3",
        "1.5e-7",
        "0x1F",
        "0o17",
        "017",
        "1_000",
        "true",
        "False",
        "yes",
        "off",
        "null",
        "~",
        "2024-01-02",
        "12:30:45",
        "1Gi",
        "500m",
        ".5",
        "+1",
        "v1.2.3",
        "1.2.3",
        "0b101",
        "=",
        "NaN",
        "-x",
        "123456789012345678901234567890",
        "a b",
        "x:y",
    ];
    const TEXTS: [&str; 26] = [
        "",
        " ",
        "text",
        "two words",
        "1",
        "true",
        "null",
        "1.0",
        "yes",
        "2024-01-02",
        "0x1F",
        "a: b",
        "# no",
        "- x",
        "tab\there",
        "trailing ",
        " leading",
        "quote \" and '",
        "back\\slash",
        "é ü 漢字 🙂",
        "line\nbreak",
        "two\nlines\n",
        "*star",
        "&and",
        "<a> & b",
        "a rather long text that goes on for more than eighty characters so that a writer may think of folding it somewhere",
    ];
    match random.below(10) {
        0..=3 => plain(random.pick(&PLAIN)),
        4..=7 => {
            let quote = random.pick(&[Quote::Single, Quote::Double]);
            Yaml::Quoted(random.pick(&TEXTS).to_owned(), quote)
        }
        8 => text(random.pick(&["word", "some-name", "a.b.c", "path/to"])),
        _ => {
            let mark = random.pick(&["|", "|-", "|+", ">", ">-"]);
            let lines = [
                "first\nsecond",
                "one line",
                "a\n\nb",
                "key: value\nlist:\n- x",
                "end   \nnext",
                "x\n  deep\ny",
            ];
            // The last one in a folded block is a known gap if a patch puts it into a list in flow
            // style.
            let known = if mark.starts_with('>') {
                lines.len() - 1
            } else {
                lines.len()
            };
            Yaml::Block(random.pick(&lines[..known]).to_owned(), mark)
        }
    }
}

/// Changes the style of some parts.
pub(super) fn restyle(node: &mut Yaml, random: &mut Random) {
    match node {
        Yaml::Map(fields, layout) => {
            if random.percent(4) {
                *layout = Layout::Flow;
            }
            fields
                .iter_mut()
                .for_each(|(_, value)| restyle(value, random));
        }
        Yaml::List(items, layout) => {
            *layout = match random.below(20) {
                0 => Layout::Flow,
                1..=5 => Layout::Indented,
                _ => *layout,
            };
            items.iter_mut().for_each(|item| restyle(item, random));
        }
        Yaml::Plain(text)
            if random.percent(3) && text.bytes().all(|byte| byte.is_ascii_alphabetic()) =>
        {
            *node = Yaml::Quoted(text.clone(), random.pick(&[Quote::Single, Quote::Double]));
        }
        _ => {}
    }
}

/// Returns a value for a field that must be a string.
pub fn value_text(random: &mut Random) -> Yaml {
    match scalar(random) {
        Yaml::Plain(plain) => Yaml::Quoted(plain, Quote::Double),
        other => other,
    }
}
