//! Functions on slash-separated paths.

use super::arg::{bytes, out};
use super::{Entry, Out, S};
use driftless_go::path::clean_bytes;
use driftless_gotmpl::{Exec, Value};

pub(super) const TABLE: &[Entry] = &[
    ("base", S, base),
    ("dir", S, dir),
    ("clean", S, clean_path),
    ("ext", S, ext),
    ("isAbs", S, is_abs),
    ("osBase", S, base),
    ("osDir", S, dir),
    ("osClean", S, clean_path),
    ("osExt", S, ext),
    ("osIsAbs", S, is_abs),
];

fn base(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let path = bytes(a, 0);
    let end = path.len() - path.iter().rev().take_while(|b| **b == b'/').count();
    let last = path[..end]
        .rsplit(|b| *b == b'/')
        .next()
        .unwrap_or_default();
    out(
        exec,
        match (path.is_empty(), last.is_empty()) {
            (true, _) => b".",
            (false, true) => b"/",
            _ => last,
        },
    )
}

fn dir(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let path = bytes(a, 0);
    let end = path.iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
    out(exec, clean_bytes(&path[..end]))
}

fn clean_path(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    out(exec, clean_bytes(bytes(a, 0)))
}

fn ext(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let path = bytes(a, 0);
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let dot = name.iter().rposition(|b| *b == b'.').unwrap_or(name.len());
    out(exec, &name[dot..])
}

fn is_abs(_: &mut Exec<'_>, a: &[Value]) -> Out {
    Ok(Value::Bool(bytes(a, 0).starts_with(b"/")))
}
