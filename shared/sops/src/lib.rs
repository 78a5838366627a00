//! SOPS documents: parse, verify the MAC, decrypt.
