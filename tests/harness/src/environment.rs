//! The environment variables of tests.

/// Returns the number in an environment variable, or the default.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
    })
}
