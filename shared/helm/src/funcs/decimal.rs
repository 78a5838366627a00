//! Decimal arithmetic of the functions on floats, like `shopspring/decimal`.

use driftless_go::float;
use num_bigint::{BigInt, Sign};

/// The digits after the decimal point of a division.
const DIVISION_PRECISION: i64 = 16;

/// A decimal number, `value * 10^exp`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    value: BigInt,
    exp: i64,
}

fn ten_to(n: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(n).unwrap_or(0))
}

impl Decimal {
    /// Creates the shortest decimal that reads as this number; `None` for infinities and NaN.
    pub fn new(f: f64) -> Option<Self> {
        if !f.is_finite() {
            return None;
        }
        let text = float::format(f, 'e', None);
        let (mantissa, exp) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Some(Decimal {
            value: format!("{whole}{fraction}").parse().ok()?,
            exp: exp.parse::<i64>().ok()? - fraction.len() as i64,
        })
    }

    /// Returns the nearest float64.
    pub fn to_f64(&self) -> f64 {
        format!("{}e{}", self.value, self.exp)
            .parse()
            .unwrap_or(f64::NAN)
    }

    /// Returns both values at the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exp = self.exp.min(other.exp);
        let at = |d: &Self| &d.value * ten_to(d.exp - exp);
        (at(self), at(other), exp)
    }

    pub fn add(&self, other: &Self) -> Self {
        let (a, b, exp) = self.aligned(other);
        Decimal { value: a + b, exp }
    }

    pub fn sub(&self, other: &Self) -> Self {
        let (a, b, exp) = self.aligned(other);
        Decimal { value: a - b, exp }
    }

    pub fn mul(&self, other: &Self) -> Self {
        Decimal {
            value: &self.value * &other.value,
            exp: self.exp + other.exp,
        }
    }

    /// Divides, rounded half away from zero at 16 digits; `None` for a division by zero.
    pub fn div(&self, other: &Self) -> Option<Self> {
        if other.value.sign() == Sign::NoSign {
            return None;
        }
        let shift = self.exp - other.exp + DIVISION_PRECISION;
        let (mut over, mut under) = (self.value.clone(), other.value.clone());
        if shift >= 0 {
            over *= ten_to(shift);
        } else {
            under *= ten_to(-shift);
        }
        let quotient = &over / &under;
        let rest: BigInt = (&over - &quotient * &under) * 2;
        let up = rest.magnitude() >= under.magnitude();
        let away = match (up, over.sign() == under.sign()) {
            (false, _) => 0i32,
            (true, true) => 1,
            (true, false) => -1,
        };
        Some(Decimal {
            value: quotient + away,
            exp: -DIVISION_PRECISION,
        })
    }
}
