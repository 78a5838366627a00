//! The origin of a request: the event that began the work which it continues.

use driftless_flux::shorten;
use serde::{Deserialize, Serialize};

/// The most bytes of the id of a delivery.
const MAX_DELIVERY: usize = 200;

/// The event that began the work which a request continues. The queue adds it to each request that
/// is sent while a message or a delivery is handled, so that it follows a push to the last object.
/// Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The trace context of the span that sent the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
    /// The id that the Git host gave the delivery; `None` if no delivery began the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
}

impl Origin {
    /// Returns an origin, with an id of a delivery of a bounded length and without control
    /// characters.
    pub fn new(traceparent: TraceParent, delivery: Option<&str>) -> Self {
        Self {
            traceparent: Some(traceparent),
            delivery: delivery.map(delivery_id).filter(|id| !id.is_empty()),
        }
    }
}

/// Returns the id of a delivery with a bounded length and without control characters.
pub fn delivery_id(id: &str) -> String {
    let id: String = id.chars().filter(|one| !one.is_control()).collect();
    shorten(id.trim(), MAX_DELIVERY)
}

/// A trace context in the format of the header `traceparent` of the W3C:
/// `00-TRACE-SPAN-FLAGS`. A text of another form is kept, and has no ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceParent(String);

/// The ids of a [`TraceParent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceIds {
    /// The id of the trace.
    pub trace: [u8; 16],
    /// The id of the sender's span.
    pub span: [u8; 8],
    /// True if the sender exports the trace.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Returns the trace context with these ids.
    pub fn new(ids: TraceIds) -> Self {
        let (trace, span) = (hex::encode(ids.trace), hex::encode(ids.span));
        let flags = u8::from(ids.is_sampled);
        Self(format!("00-{trace}-{span}-{flags:02x}"))
    }

    /// Returns the ids; `None` if the version is not 00, or an id is all zero.
    pub fn ids(&self) -> Option<TraceIds> {
        let mut parts = self.0.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (span, flags) = (parts.next()?, parts.next()?);
        let is_lower = |text: &str| !text.bytes().any(|byte| byte.is_ascii_uppercase());
        if version != "00" || parts.next().is_some() || !is_lower(&self.0) {
            return None;
        }
        let mut ids = TraceIds {
            trace: [0; 16],
            span: [0; 8],
            is_sampled: false,
        };
        let mut flag = [0; 1];
        hex::decode_to_slice(trace, &mut ids.trace).ok()?;
        hex::decode_to_slice(span, &mut ids.span).ok()?;
        hex::decode_to_slice(flags, &mut flag).ok()?;
        ids.is_sampled = flag[0] & 1 == 1;
        (ids.trace != [0; 16] && ids.span != [0; 8]).then_some(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(text: &str) -> TraceParent {
        TraceParent(text.to_owned())
    }

    #[test]
    fn a_trace_context_has_the_form_of_the_w3c() {
        let ids = TraceIds {
            trace: [0x4b; 16],
            span: [0xf0; 8],
            is_sampled: true,
        };
        let text = "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-01";
        assert_eq!(TraceParent::new(ids), parent(text));
        assert_eq!(parent(text).ids(), Some(ids));
        let unsampled = parent(&text.replace("-01", "-00")).ids();
        assert_eq!(unsampled.map(|ids| ids.is_sampled), Some(false));
    }

    #[test]
    fn other_texts_have_no_ids() {
        for text in [
            "",
            "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0",
            "01-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-01",
            "00-4B4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-01",
            "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-01",
            "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-01-a",
            "00-00000000000000000000000000000000-f0f0f0f0f0f0f0f0-01",
            "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-0000000000000000-01",
            "00-4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b-f0f0f0f0f0f0f0f0-zz",
        ] {
            assert_eq!(parent(text).ids(), None, "{text}");
        }
    }

    #[test]
    fn the_id_of_a_delivery_is_bounded() {
        let ids = TraceIds {
            trace: [1; 16],
            span: [2; 8],
            is_sampled: false,
        };
        let origin = Origin::new(
            TraceParent::new(ids),
            Some(&format!(" a\n{}", "b".repeat(999))),
        );
        assert!(
            origin
                .delivery
                .is_some_and(|id| id.starts_with("ab") && id.len() <= 200)
        );
        assert_eq!(Origin::new(TraceParent::new(ids), Some(" ")).delivery, None);
    }
}
