//! The lines in which two texts differ, by the algorithm of diff-match-patch (sergi/go-diff 1.4),
//! whose choice among equally short edits dyff prints.

use std::collections::HashMap;

/// The most comparisons of lines. What is left then counts as replaced; dyff stops after a second.
const MAX_WORK: usize = 20_000_000;

/// The origin of lines: one of the texts, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Both texts have them.
    Equal,
    /// Only the new text has them.
    Insert,
    /// Only the old text has them.
    Delete,
}

/// Consecutive lines of the same origin.
pub(crate) struct Part {
    /// The origin of the lines.
    pub(crate) kind: Kind,
    /// The lines, with their line ends.
    pub(crate) text: String,
}

/// Returns the parts of two texts, in their order.
pub(crate) fn parts(from: &str, to: &str) -> Vec<Part> {
    let mut lines = Lines::default();
    let (old, new) = (lines.numbers(from), lines.numbers(to));
    let mut work = MAX_WORK;
    let edits = diff(&old, &new, &mut work);
    let part = |edit: Edit| Part {
        kind: edit.kind,
        text: edit.lines.iter().map(|line| lines.all[*line]).collect(),
    };
    edits.into_iter().map(part).collect()
}

/// The different lines of two texts.
#[derive(Default)]
struct Lines<'t> {
    all: Vec<&'t str>,
    known: HashMap<&'t str, usize>,
}

impl<'t> Lines<'t> {
    /// Returns the number of each line of a string.
    fn numbers(&mut self, text: &'t str) -> Vec<usize> {
        let number = |line| {
            *self.known.entry(line).or_insert_with(|| {
                self.all.push(line);
                self.all.len() - 1
            })
        };
        text.split_inclusive('\n').map(number).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    kind: Kind,
    lines: Vec<usize>,
}

fn edit(kind: Kind, lines: &[usize]) -> Edit {
    Edit {
        kind,
        lines: lines.to_vec(),
    }
}

fn common_prefix(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[usize], b: &[usize]) -> usize {
    let (a, b) = (a.iter().rev(), b.iter().rev());
    a.zip(b).take_while(|(a, b)| a == b).count()
}

fn position(long: &[usize], short: &[usize], from: usize) -> Option<usize> {
    let rest = long.get(from..)?;
    let found = match short.is_empty() {
        true => Some(0),
        false => rest.windows(short.len()).position(|part| part == short),
    };
    found.map(|at| from + at)
}

fn diff(old: &[usize], new: &[usize], work: &mut usize) -> Vec<Edit> {
    if old == new {
        return match old.is_empty() {
            true => Vec::new(),
            false => vec![edit(Kind::Equal, old)],
        };
    }
    let prefix = common_prefix(old, new);
    let (start, old, new) = (&old[..prefix], &old[prefix..], &new[prefix..]);
    let suffix = common_suffix(old, new);
    let end = &old[old.len() - suffix..];
    let (old, new) = (&old[..old.len() - suffix], &new[..new.len() - suffix]);
    let mut edits = Vec::new();
    if !start.is_empty() {
        edits.push(edit(Kind::Equal, start));
    }
    edits.extend(middle(old, new, work));
    if !end.is_empty() {
        edits.push(edit(Kind::Equal, end));
    }
    merge(edits)
}

/// Compares texts that have no common start or end.
fn middle(old: &[usize], new: &[usize], work: &mut usize) -> Vec<Edit> {
    if old.is_empty() {
        return vec![edit(Kind::Insert, new)];
    }
    if new.is_empty() {
        return vec![edit(Kind::Delete, old)];
    }
    let is_shorter = old.len() > new.len();
    let (long, short) = if is_shorter { (old, new) } else { (new, old) };
    if let Some(at) = position(long, short, 0) {
        let kind = if is_shorter {
            Kind::Delete
        } else {
            Kind::Insert
        };
        return vec![
            edit(kind, &long[..at]),
            edit(Kind::Equal, short),
            edit(kind, &long[at + short.len()..]),
        ];
    }
    if short.len() == 1 {
        return replaced(old, new);
    }
    if let Some(half) = half_match(long, short) {
        let (old_part, new_part) = match is_shorter {
            true => (half.long, half.short),
            false => (half.short, half.long),
        };
        let mut edits = diff(old_part.0, new_part.0, work);
        edits.push(edit(Kind::Equal, half.common));
        edits.extend(diff(old_part.1, new_part.1, work));
        return edits;
    }
    bisect(old, new, work)
}

fn replaced(old: &[usize], new: &[usize]) -> Vec<Edit> {
    vec![edit(Kind::Delete, old), edit(Kind::Insert, new)]
}

/// A common part that is at least half as long as the longer text, with the parts before and after
/// it.
struct Half<'l> {
    long: (&'l [usize], &'l [usize]),
    short: (&'l [usize], &'l [usize]),
    common: &'l [usize],
}

fn half_match<'l>(long: &'l [usize], short: &'l [usize]) -> Option<Half<'l>> {
    if long.len() < 4 || short.len() * 2 < long.len() {
        return None;
    }
    let first = half_match_at(long, short, long.len().div_ceil(4));
    let second = half_match_at(long, short, long.len().div_ceil(2));
    match (first, second) {
        (Some(first), Some(second)) if first.common.len() > second.common.len() => Some(first),
        (first, None) => first,
        (_, second) => second,
    }
}

/// Looks for the part of a quarter of the longer text, at a place, in the shorter one.
fn half_match_at<'l>(long: &'l [usize], short: &'l [usize], at: usize) -> Option<Half<'l>> {
    let seed = long.get(at..at + long.len() / 4)?;
    let mut best: Option<Half<'l>> = None;
    let mut found = position(short, seed, 0);
    while let Some(place) = found {
        let after = common_prefix(&long[at..], &short[place..]);
        let before = common_suffix(&long[..at], &short[..place]);
        if best.as_ref().map_or(0, |best| best.common.len()) < before + after {
            best = Some(Half {
                long: (&long[..at - before], &long[at + after..]),
                short: (&short[..place - before], &short[place + after..]),
                common: &short[place - before..place + after],
            });
        }
        found = position(short, seed, place + 1);
    }
    best.filter(|best| best.common.len() * 2 >= long.len())
}

/// One direction of [`bisect`]: the furthest places on the diagonals, from -1 for unknown.
struct Front {
    reached: Vec<isize>,
    start: isize,
    end: isize,
}

impl Front {
    fn new(length: isize) -> Self {
        let size = usize::try_from(2 * length + 2).unwrap_or(2);
        let mut front = Self {
            reached: vec![-1; size],
            start: 0,
            end: 0,
        };
        front.set(length + 1, 0);
        front
    }

    fn get(&self, at: isize) -> isize {
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.reached.get(at))
            .copied()
            .unwrap_or(-1)
    }

    fn set(&mut self, at: isize, value: isize) {
        let at = usize::try_from(at).ok();
        if let Some(place) = at.and_then(|at| self.reached.get_mut(at)) {
            *place = value;
        }
    }
}

/// Finds the middle of a shortest edit (Myers 1986), and compares both sides of it.
fn bisect(old: &[usize], new: &[usize], work: &mut usize) -> Vec<Edit> {
    let length = |list: &[usize]| isize::try_from(list.len()).unwrap_or(isize::MAX);
    let (old_length, new_length) = (length(old), length(new));
    let most = (old_length + new_length + 1) / 2;
    let size = 2 * most;
    let (mut forward, mut backward) = (Front::new(most), Front::new(most));
    let delta = old_length - new_length;
    let is_odd = delta % 2 != 0;
    let is_same = |x: isize, y: isize, is_reverse: bool| {
        let (x, y) = match is_reverse {
            true => (old_length - x - 1, new_length - y - 1),
            false => (x, y),
        };
        let at = |list: &[usize], place: isize| {
            let place = usize::try_from(place).ok()?;
            list.get(place).copied()
        };
        at(old, x) == at(new, y)
    };
    for d in 0..most {
        for is_reverse in [false, true] {
            let (front, other) = match is_reverse {
                false => (&mut forward, &backward),
                true => (&mut backward, &forward),
            };
            let mut k = -d + front.start;
            while k <= d - front.end {
                let offset = most + k;
                let (left, right) = (front.get(offset - 1), front.get(offset + 1));
                let mut x = match k == -d || (k != d && left < right) {
                    true => right,
                    false => left + 1,
                };
                let mut y = x - k;
                *work = work.saturating_sub(1);
                while x < old_length && y < new_length && is_same(x, y, is_reverse) {
                    x += 1;
                    y += 1;
                    *work = work.saturating_sub(1);
                }
                front.set(offset, x);
                if x > old_length {
                    front.end += 2;
                } else if y > new_length {
                    front.start += 2;
                } else if is_odd != is_reverse {
                    let facing = most + delta - k;
                    if (0..size).contains(&facing) && other.get(facing) != -1 {
                        let there = other.get(facing);
                        // Both in the coordinates of the forward direction.
                        let (ahead, behind) = match is_reverse {
                            false => (x, old_length - there),
                            true => (there, old_length - x),
                        };
                        if ahead >= behind {
                            let at = match is_reverse {
                                false => (x, y),
                                true => (there, most + there - facing),
                            };
                            return split(old, new, at, work);
                        }
                    }
                }
                k += 2;
            }
        }
        if *work == 0 {
            break;
        }
    }
    replaced(old, new)
}

fn split(old: &[usize], new: &[usize], at: (isize, isize), work: &mut usize) -> Vec<Edit> {
    let place = |at: isize, list: &[usize]| usize::try_from(at).unwrap_or(0).min(list.len());
    let (old_at, new_at) = (place(at.0, old), place(at.1, new));
    let mut edits = diff(&old[..old_at], &new[..new_at], work);
    edits.extend(diff(&old[old_at..], &new[new_at..], work));
    edits
}

/// Merges edits of the same kind, moves common starts and ends of replacements into the equal parts
/// next to them, and shifts single edits over an equal part that they can absorb.
fn merge(mut edits: Vec<Edit>) -> Vec<Edit> {
    loop {
        edits = joined(edits);
        let mut is_shifted = false;
        let mut at = 1;
        while at + 1 < edits.len() {
            if edits[at - 1].kind == Kind::Equal && edits[at + 1].kind == Kind::Equal {
                let before = edits[at - 1].lines.clone();
                let after = edits[at + 1].lines.clone();
                if edits[at].lines.ends_with(&before) {
                    let kept = edits[at].lines.len() - before.len();
                    let kept = edits[at].lines[..kept].to_vec();
                    edits[at].lines = [before.clone(), kept].concat();
                    edits[at + 1].lines = [before, after].concat();
                    edits.remove(at - 1);
                    is_shifted = true;
                } else if edits[at].lines.starts_with(&after) {
                    let kept = edits[at].lines[after.len()..].to_vec();
                    edits[at - 1].lines.extend(&after);
                    edits[at].lines = [kept, after].concat();
                    edits.remove(at + 1);
                    is_shifted = true;
                }
            }
            at += 1;
        }
        if !is_shifted {
            return edits;
        }
    }
}

/// Joins the edits between two equal parts into at most one deletion and one insertion.
fn joined(edits: Vec<Edit>) -> Vec<Edit> {
    let mut out: Vec<Edit> = Vec::new();
    let (mut deleted, mut inserted): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let end = edit(Kind::Equal, &[]);
    for mut one in edits.into_iter().chain([end]) {
        match one.kind {
            Kind::Insert => inserted.append(&mut one.lines),
            Kind::Delete => deleted.append(&mut one.lines),
            Kind::Equal => {
                let has_both = !deleted.is_empty() && !inserted.is_empty();
                if has_both {
                    let prefix = common_prefix(&inserted, &deleted);
                    if prefix > 0 {
                        let common: Vec<usize> = inserted.drain(..prefix).collect();
                        deleted.drain(..prefix);
                        match out.last_mut() {
                            Some(last) if last.kind == Kind::Equal => last.lines.extend(common),
                            _ => out.push(edit(Kind::Equal, &common)),
                        }
                    }
                    let suffix = common_suffix(&inserted, &deleted);
                    if suffix > 0 {
                        let mut common = inserted.split_off(inserted.len() - suffix);
                        deleted.truncate(deleted.len() - suffix);
                        common.append(&mut one.lines);
                        one.lines = common;
                    }
                }
                for (kind, lines) in [(Kind::Delete, &mut deleted), (Kind::Insert, &mut inserted)] {
                    if !lines.is_empty() {
                        out.push(edit(kind, lines));
                        lines.clear();
                    }
                }
                match out.last_mut() {
                    Some(last) if last.kind == Kind::Equal => last.lines.append(&mut one.lines),
                    _ => out.push(one),
                }
            }
        }
    }
    if out.last().is_some_and(|last| last.lines.is_empty()) {
        out.pop();
    }
    out
}
