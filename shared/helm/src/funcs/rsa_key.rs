//! New RSA keys. The search for primes is that of `crypto-primes`: the one of the `rsa` crate takes
//! three times as long.

use super::key_budget::NewKey;
use super::render_context::{RenderContext, random};
use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_bigint::{Encoding, RandomBits, RandomMod, U1024, U2048, UnsignedWithMontyForm};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use driftless_go::Error as GoError;
use driftless_gotmpl::{Exec, FuncError};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::RngCore as _;
use rsa::{BigUint, RsaPrivateKey};
use std::convert::Infallible;

/// The size of a key in bits.
#[derive(Clone, Copy)]
pub(super) enum Size {
    /// 2,048, for certificates.
    Certificate,
    /// 4,096, for `genPrivateKey`.
    Large,
}

/// Generates a key from the render's random source.
///
/// # Errors
/// A used-up budget.
pub(super) fn generate(exec: &mut Exec<'_>, size: Size) -> Result<RsaPrivateKey, FuncError> {
    RenderContext::of(exec)?.keys.take(match size {
        Size::Certificate => NewKey::Rsa2048,
        Size::Large => NewKey::Rsa4096,
    })?;
    let key = random(exec)?.with(|rng| match size {
        Size::Certificate => key::<U1024>(rng),
        Size::Large => key::<U2048>(rng),
    });
    key.map_err(|reason| format!("error generating rsa key: {reason}").into())
}

/// The pairs of primes that are tried: one in thirty thousand does not fit the exponent.
const TRIES: usize = 8;

fn key<T>(rng: &mut ChaCha20Rng) -> Result<RsaPrivateKey, GoError>
where
    T: UnsignedWithMontyForm + RandomBits + RandomMod + Encoding,
{
    let exponent = BigUint::from(65_537u32);
    for _ in 0..TRIES {
        let (p, q) = (prime::<T>(rng)?, prime::<T>(rng)?);
        if p != q
            && let Ok(key) = RsaPrivateKey::from_p_q(p, q, exponent.clone())
        {
            return Ok(key);
        }
    }
    Err("no suitable primes were found".into())
}

/// Returns a prime that fills the type, with both of its highest bits set: the product of two has
/// twice as many bits.
fn prime<T>(rng: &mut ChaCha20Rng) -> Result<BigUint, GoError>
where
    T: UnsignedWithMontyForm + RandomBits + RandomMod + Encoding,
{
    let bits = 8 * size_of::<T>() as u32;
    let sieve = SmallFactorsSieveFactory::<T>::new(Flavor::Any, bits, SetBits::TwoMsb)
        .map_err(|e| e.to_string())?;
    let found = sieve_and_find(&mut Source(rng), sieve, |_, n| is_prime(Flavor::Any, n))
        .map_err(|e| e.to_string())?;
    let prime = found.ok_or("the search for a prime ended")?;
    Ok(BigUint::from_bytes_be(prime.to_be_bytes().as_ref()))
}

/// The generator with the traits that `crypto-primes` requires.
struct Source<'r>(&'r mut ChaCha20Rng);

impl TryRng for Source<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_bytes(buffer);
        Ok(())
    }
}

impl TryCryptoRng for Source<'_> {}
