//! The formats of files that SOPS encrypts.

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One or more YAML documents.
    Yaml,
    /// A JSON object.
    Json,
    /// Lines of `KEY=value`.
    Dotenv,
    /// Sections of `KEY = value`.
    Ini,
    /// Any other file: JSON with the encrypted bytes in `data`.
    Binary,
}

impl Format {
    /// Returns the format for a file name's extension, by sops's rules.
    pub fn from_path(path: &str) -> Format {
        let ends = |suffix: &str| path.ends_with(suffix);
        if ends(".yaml") || ends(".yml") {
            Format::Yaml
        } else if ends(".json") {
            Format::Json
        } else if ends(".env") {
            Format::Dotenv
        } else if ends(".ini") {
            Format::Ini
        } else {
            Format::Binary
        }
    }
}

/// Checks whether a file seems to be encrypted: it has metadata with a MAC at its top level. The
/// bytes are searched and not parsed, so this is cheap; another file may pass, for which
/// [`decrypt`](crate::decrypt) then returns the problem.
pub fn is_encrypted(bytes: &[u8], format: Format) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    if !text.contains("ENC[AES256_GCM,") {
        return false;
    }
    let line = |start: &str| text.starts_with(start) || text.contains(&format!("\n{start}"));
    match format {
        Format::Yaml => {
            line("sops:")
                || line("\"sops\":")
                || (text.trim_start().starts_with('{') && text.contains("\"sops\""))
        }
        Format::Json | Format::Binary => text.contains("\"sops\"") && text.contains("\"mac\""),
        Format::Dotenv => line("sops_mac="),
        Format::Ini => line("[sops]"),
    }
}
