//! The budget of new keys in one render. The search for primes is the only work of a chart that
//! takes as long as millions of other steps, and the charts that need it need a known number of
//! keys: so it has a separate budget.

use driftless_gotmpl::FuncError;
use std::cell::Cell;

/// A kind of new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewKey {
    /// An RSA key of 2,048 bits, for a certificate.
    Rsa2048,
    /// An RSA key of 4,096 bits, from `genPrivateKey "rsa"`.
    Rsa4096,
    /// A DSA key of 2,048 bits with new parameters.
    Dsa2048,
}

impl NewKey {
    /// Returns the share of the budget that one key uses. It limits the number of keys of one kind.
    const fn cost(self) -> u64 {
        match self {
            NewKey::Rsa2048 => TOTAL_WORK / 120,
            NewKey::Rsa4096 => TOTAL_WORK / 40,
            NewKey::Dsa2048 => TOTAL_WORK / 3,
        }
    }
}

/// The budget of all new keys of a render. A template that creates a few keys is included again for
/// its checksum, and by hooks: charts create dozens of keys of which they keep a handful.
const TOTAL_WORK: u64 = 48_000;

/// The rest of the budget of new keys in a render.
pub(crate) struct KeyBudget(Cell<u64>);

impl Default for KeyBudget {
    fn default() -> Self {
        Self(Cell::new(TOTAL_WORK))
    }
}

impl KeyBudget {
    /// Charges for a new key.
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn take(&self, key: NewKey) -> Result<(), FuncError> {
        match self.0.get().checked_sub(key.cost()) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(FuncError::out_of_budget(format!(
                "more new keys than the limit of one chart: {} RSA keys of 4096 bits, {} of 2048 bits (certificates), or \
                     {} DSA keys; make the keys outside of the chart, and pass them in values or in a Secret",
                TOTAL_WORK / NewKey::Rsa4096.cost(),
                TOTAL_WORK / NewKey::Rsa2048.cost(),
                TOTAL_WORK / NewKey::Dsa2048.cost(),
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affordable(keys: impl IntoIterator<Item = NewKey>) -> usize {
        let budget = KeyBudget::default();
        keys.into_iter()
            .take_while(|key| budget.take(*key).is_ok())
            .count()
    }

    #[test]
    fn dozens_of_keys_fit_and_thousands_do_not() {
        use NewKey::{Dsa2048, Rsa2048, Rsa4096};
        let many = |key| std::iter::repeat_n(key, 10_000);
        assert_eq!(affordable(many(Rsa4096)), 40);
        assert_eq!(affordable(many(Rsa2048)), 120);
        assert_eq!(affordable(many(Dsa2048)), 3);
        let mixed = std::iter::repeat_n(Rsa4096, 32).chain(many(Rsa2048));
        assert_eq!(affordable(mixed), 32 + 24);
    }
}
