//! Shamir's secret sharing over GF(2^8) with the AES polynomial, in the form of HashiCorp Vault's
//! package that sops uses: each part has the values of the polynomials, and the x coordinate in its
//! last byte.

use zeroize::Zeroizing;

/// Combines parts to a secret. `None` if the parts cannot belong together; too few parts give a
/// wrong secret, which then opens nothing.
pub(crate) fn combine(parts: &[Zeroizing<Vec<u8>>]) -> Option<Zeroizing<Vec<u8>>> {
    let length = parts.first()?.len();
    if parts.len() < 2 || length < 2 || parts.iter().any(|part| part.len() != length) {
        return None;
    }
    let xs: Vec<u8> = parts.iter().map(|part| part[length - 1]).collect();
    if (1..xs.len()).any(|i| xs[..i].contains(&xs[i])) {
        return None;
    }
    let weights: Vec<u8> = (0..xs.len()).map(|i| weight(&xs, i)).collect();
    let byte = |at: usize| {
        parts
            .iter()
            .zip(&weights)
            .fold(0, |sum, (part, weight)| sum ^ multiply(part[at], *weight))
    };
    Some(Zeroizing::new((0..length - 1).map(byte).collect()))
}

/// Returns the Lagrange coefficient of part `i` at x = 0. Subtraction is exclusive-or.
fn weight(xs: &[u8], i: usize) -> u8 {
    let others = xs.iter().enumerate().filter(|(j, _)| *j != i);
    others.fold(1, |product, (_, x)| {
        multiply(product, multiply(*x, inverse(xs[i] ^ x)))
    })
}

fn multiply(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (a, 0);
    for bit in 0..8 {
        // Masks instead of branches: the parts are secret.
        product ^= a & 0u8.wrapping_sub((b >> bit) & 1);
        let carry = 0u8.wrapping_sub(a >> 7);
        a = (a << 1) ^ (carry & 0x1b);
    }
    product
}

/// Returns `a^254`, which is `1/a`.
fn inverse(a: u8) -> u8 {
    let square = |x| multiply(x, x);
    let a3 = multiply(square(a), a);
    let a15 = multiply(square(square(a3)), a3);
    let a240 = square(square(square(square(a15))));
    // 240 + 12 + 2 = 254
    multiply(a240, multiply(square(square(a3)), square(a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_inverse() {
        assert!((1..=255).all(|a| multiply(a, inverse(a)) == 1));
    }

    #[test]
    fn two_shares_restore_the_secret() {
        // f(x) = 7 + 9x, at x = 3 and x = 200.
        let at = |x: u8| Zeroizing::new(vec![7 ^ multiply(9, x), x]);
        assert_eq!(combine(&[at(3), at(200)]).as_deref(), Some(&vec![7]));
        assert_eq!(combine(&[at(3), at(3)]), None);
        assert_eq!(combine(&[at(3)]), None);
    }
}
