//! The only source of random numbers: SplitMix64, from the seed.

/// A generator; equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator for a seed; `stream` gives each use of the seed its own numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xA076_1D64_78BD_642F));
        rng.number();
        rng
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).unwrap_or_default()
    }

    /// Returns a number of `from..=to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from + 1)
    }

    /// Returns true in `of_ten_thousand` of 10,000 cases.
    pub fn chance(&mut self, of_ten_thousand: u32) -> bool {
        self.number() % 10_000 < u64::from(of_ten_thousand)
    }

    /// Returns a random element; `None` for an empty slice.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| &of[self.below(of.len())])
    }
}
