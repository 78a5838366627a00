package main

import (
	"crypto/sha1"
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

func sha1Hex(value string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(value))) }
