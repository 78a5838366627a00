package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/nats-io/nkeys"
)

// A key of NATS from fixed bytes.
var natsSeed = func() string {
	pair := must(nkeys.FromRawSeed(nkeys.PrefixByteUser, []byte("01234567890123456789012345678901")))
	return string(must(pair.Seed()))
}()

var natsCreds = "-----BEGIN NATS USER JWT-----\neyJhbGciOiJub25lIn0.e30.c2ln\n------END NATS USER JWT------\n\n" +
	"-----BEGIN USER NKEY SEED-----\n" + natsSeed + "\n------END USER NKEY SEED------\n"

// The place of the key of a GitHub App in settings. The key itself is random and not recorded.
const appKey = "KEY"

var appPEM = func() []byte {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}()

func sha1Hex(value string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(value))) }
