//! The rules of .helmignore files.

use crate::error::HelmError;
use driftless_go::glob::Glob;

/// The rules of a .helmignore file, with Helm's defaults.
#[derive(Debug)]
pub struct IgnoreRules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// The pattern; `None` for a malformed one, which matches nothing: the rest of `a\/` without
    /// its slash.
    pattern: Option<Glob>,
    negate: bool,
    only_dirs: bool,
    /// True if the pattern is matched against the base name only.
    base: bool,
}

impl IgnoreRules {
    /// Parses the file's content; empty if the file is missing.
    ///
    /// # Errors
    /// [`HelmError::Chart`] for a pattern that Helm refuses.
    pub fn parse(text: &str) -> Result<Self, HelmError> {
        let mut rules = IgnoreRules(Vec::new());
        for line in text.trim_start_matches('\u{feff}').lines() {
            rules.add(line)?;
        }
        rules.add("templates/.?*")?;
        Ok(rules)
    }

    fn add(&mut self, line: &str) -> Result<(), HelmError> {
        let rule = line.trim();
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        let fail = |message: &str| Err(HelmError::chart(".helmignore", message));
        if rule.contains("**") {
            return fail("double-star (**) syntax is not supported");
        }
        if Glob::new(rule).is_none() {
            return fail("syntax error in pattern");
        }
        let (negate, rule) = match rule.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, rule),
        };
        let (only_dirs, rule) = match rule.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rule),
        };
        let (base, pattern) = match rule.strip_prefix('/') {
            Some(rest) => (false, rest),
            None => (!rule.contains('/'), rule),
        };
        self.0.push(Rule {
            pattern: Glob::new(pattern),
            negate,
            only_dirs,
            base,
        });
        Ok(())
    }

    /// Checks whether a file, or a directory with all its content, is left out.
    pub fn ignores(&self, path: &str, is_dir: bool) -> bool {
        self.0.iter().any(|rule| {
            let name = if rule.base {
                path.rsplit('/').next().unwrap_or(path)
            } else {
                path
            };
            let matched = rule.pattern.as_ref().is_some_and(|p| p.matches(name));
            if rule.negate {
                rule.only_dirs && !is_dir || !matched
            } else {
                (!rule.only_dirs || is_dir) && matched
            }
        })
    }
}
