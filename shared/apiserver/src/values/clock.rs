//! The time of a request, and the seed of its uids and generated names.

use jiff::Timestamp;

/// The time of a request and the source of its uids and generated names.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The time of the request.
    pub now: Timestamp,
    /// Different for each request of a server; equal seeds give equal uids.
    pub seed: u128,
}

impl Clock {
    /// Formats the time as in objects: RFC 3339 in UTC, without fractions of a second.
    pub fn stamp(&self) -> String {
        seconds(self.now)
    }

    /// Returns the next uid.
    pub(crate) fn uid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | (b >> 48) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }

    /// Returns the five characters at the end of a generated name.
    pub(crate) fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        let mut out = String::new();
        for _ in 0..5 {
            let index = usize::try_from(bits % LETTERS.len() as u64).unwrap_or_default();
            out.push(char::from(LETTERS[index]));
            bits /= LETTERS.len() as u64;
        }
        out
    }

    /// Returns the next pseudo-random number: splitmix64 over the seed.
    pub(crate) fn next(&mut self) -> u64 {
        let low = u64::try_from(self.seed & u128::from(u64::MAX)).unwrap_or_default();
        let high = u64::try_from(self.seed >> 64).unwrap_or_default();
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = low.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ high.rotate_left(17);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Formats a time in RFC 3339 with seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
