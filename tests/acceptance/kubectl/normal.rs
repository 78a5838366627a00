//! Replaces the parts of kubectl's output that differ between any two servers: ages, uids,
//! versions, addresses.

use std::sync::OnceLock;

use regex::Regex;

/// Returns the output with placeholders; the width of columns depends on the values, so repeated
/// spaces become one.
pub fn output(text: &str) -> String {
    let mut out = text.to_owned();
    for (pattern, with) in patterns() {
        out = pattern.replace_all(&out, *with).into_owned();
    }
    out
}

fn patterns() -> &'static [(Regex, &'static str)] {
    static COMPILED: OnceLock<Vec<(Regex, &'static str)>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let list = [
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "<uid>",
            ),
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "<time>"),
            (
                r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
                "<time>",
            ),
            (r"(?m)^([WE])\d{4} [\d:.]+ +\d+ ", "$1 "),
            (r"(Resource Version: +)\d+", "$1<version>"),
            (r#"(resourceVersion"?: ?)"\d+""#, "$1<version>"),
            (r"\b(\d+[dhms]){1,2}\b", "<age>"),
            (r"<invalid>|<unknown>(\s*)$", "<age>$1"),
            (r"https://127\.0\.0\.1:\d+", "<server>"),
            (r"\b10\.(0|96)\.\d+\.\d+\b", "<address>"),
            (r"\b3[0-2]\d{3}\b", "<port>"),
            (r"/tmp/(LIVE|MERGED)-\d+", "/$1"),
            (r"/tmp/\S*(kubectl-edit-)\d+\.yaml", "/$1"),
            (r" {2,}|\t", " "),
            (r"(?m) +$", ""),
        ];
        list.map(|(pattern, with)| (Regex::new(pattern).expect("a pattern"), with))
            .into()
    })
}
