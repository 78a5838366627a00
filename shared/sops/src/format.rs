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
    /// Known but not supported: [`decrypt`](crate::decrypt) refuses it.
    Ini,
    /// Anything else: JSON with the encrypted bytes in `data`.
    Binary,
}

impl Format {
    /// The format by the end of a file's name, as sops decides it.
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

/// Whether a file looks encrypted: metadata at its top level with a MAC in it. The text is searched, not parsed, so this is
/// cheap; a file that is none may pass, and [`decrypt`](crate::decrypt) then says what is wrong with it.
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
