// Command sign makes signatures of artifacts in a registry of loopback with the libraries that people's tools are made of
// (cosign's and notation's), and says what those libraries say of a signature, asked the way source-controller 1.9 asks them.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"os"
)

// commands are the program's verbs, each with what it takes.
var commands = map[string]struct {
	takes []string
	run   func(ctx context.Context, arguments []string) error
}{
	"key":             {[]string{"KIND", "FILE"}, func(_ context.Context, a []string) error { return writeKey(a[0], a[1]) }},
	"cosign-simple":   {[]string{"REFERENCE", "KEY", "DIGEST"}, func(ctx context.Context, a []string) error { return signSimple(ctx, a[0], a[1], a[2]) }},
	"cosign-bundle":   {[]string{"REFERENCE", "KEY", "DIGEST"}, func(ctx context.Context, a []string) error { return signBundle(ctx, a[0], a[1], a[2]) }},
	"certificates":    {[]string{"FOLDER", "HOW"}, func(_ context.Context, a []string) error { return writeCertificates(a[0], a[1]) }},
	"notation-sign":   {[]string{"REFERENCE", "FOLDER", "HOW"}, func(ctx context.Context, a []string) error { return signNotation(ctx, a[0], a[1], a[2]) }},
	"notation-verify": {[]string{"REFERENCE", "POLICY", "CERTIFICATES"}, func(ctx context.Context, a []string) error { return verifyNotation(ctx, a[0], a[1], a[2]) }},
	"sigstore":        {[]string{"FOLDER"}, func(_ context.Context, a []string) error { return writeSigstore(a[0]) }},
	"keyless-sign":    {[]string{"REFERENCE", "SIGSTORE", "HOW"}, func(ctx context.Context, a []string) error { return signKeyless(ctx, a[0], a[1], a[2]) }},
	"keyless-verify":  {[]string{"REFERENCE", "SIGSTORE", "IDENTITIES"}, func(ctx context.Context, a []string) error { return verifyKeyless(ctx, a[0], a[1], a[2]) }},
	"cosign-verify":   {[]string{"REFERENCE", "PUBLIC-KEY"}, func(ctx context.Context, a []string) error { return verifyCosign(ctx, a[0], a[1]) }},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("a command is missing")
	}
	command, ok := commands[os.Args[1]]
	if !ok || len(os.Args)-2 != len(command.takes) {
		log.Fatalf("%s: expected %v", os.Args[1], command.takes)
	}
	if err := command.run(context.Background(), os.Args[2:]); err != nil {
		log.Fatalf("%s: %v", os.Args[1], err)
	}
}

// newKey makes a private key of a kind.
func newKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "p256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "p384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "p521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case "rsa":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "rsa3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "rsa4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	}
	return nil, fmt.Errorf("no kind of key: %s", kind)
}

// writeKey makes a key: FILE has the private half, FILE.pub the public one.
func writeKey(kind, file string) error {
	key, err := newKey(kind)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(file, "PRIVATE KEY", private); err != nil {
		return err
	}
	return writePEM(file+".pub", "PUBLIC KEY", public)
}

func writePEM(file, label string, blocks ...[]byte) error {
	var text bytes.Buffer
	for _, block := range blocks {
		if err := pem.Encode(&text, &pem.Block{Type: label, Bytes: block}); err != nil {
			return err
		}
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// readKey reads what writeKey wrote.
func readKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM text", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return key.(crypto.Signer), nil
}
