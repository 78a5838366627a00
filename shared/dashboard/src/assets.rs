//! The files that pages load: one stylesheet, one script, one icon. Their addresses have a digest
//! of their content, so that browsers keep them.

use crate::http::Response;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

static ASSETS: [Asset; 3] = [
    Asset {
        name: "style.css",
        kind: "text/css; charset=utf-8",
        content: include_str!("assets/style.css"),
    },
    Asset {
        name: "script.js",
        kind: "text/javascript; charset=utf-8",
        content: include_str!("assets/script.js"),
    },
    Asset {
        name: "icon.svg",
        kind: "image/svg+xml",
        content: include_str!("assets/icon.svg"),
    },
];

/// The digests of the assets, in their order.
static DIGESTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    ASSETS.each_ref().map(|asset| {
        let digest = Sha256::digest(asset.content.as_bytes());
        hex::encode(digest.get(..6).unwrap_or_default())
    })
});

/// Returns the path of an asset.
pub fn href(name: &str) -> String {
    let all = ASSETS.iter().zip(DIGESTS.iter());
    let digest = all
        .filter(|(asset, _)| asset.name == name)
        .map(|(_, digest)| digest);
    let digest = digest.map(String::as_str).next().unwrap_or_default();
    format!("/assets/{digest}/{name}")
}

/// Returns the asset with this path below `/assets/`.
pub fn serve(path: &str) -> Option<Response> {
    let (_, name) = path.split_once('/')?;
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let response = Response::new(200, asset.kind, asset.content);
    Some(response.with("cache-control", "public, max-age=31536000, immutable"))
}
