// Servers of SSH that differ in their keys and key exchanges, and private keys in the forms that files have: what
// `create secret git` meets. The keys are written to the folder that the one argument names; each server is a line
// `NAME ADDRESS` on stdout. All ends with standard input.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

const password = "open sesame"

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type keys struct {
	rsa     *rsa.PrivateKey
	ecdsa   map[string]*ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
}

func generate() keys {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	made := keys{rsa: must(rsa.GenerateKey(rand.Reader, 2048)), ed25519: edwards, ecdsa: map[string]*ecdsa.PrivateKey{}}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521()} {
		made.ecdsa[name] = must(ecdsa.GenerateKey(curve, rand.Reader))
	}
	return made
}

func (k keys) all() map[string]crypto.Signer {
	all := map[string]crypto.Signer{"rsa": k.rsa, "ed25519": k.ed25519}
	for name, key := range k.ecdsa {
		all[name] = key
	}
	return all
}

// serve answers on loopback until the process ends.
func serve(name string, exchanges []string, all ...crypto.Signer) {
	config := &ssh.ServerConfig{
		PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
			return nil, errors.New("nobody is let in")
		},
	}
	config.KeyExchanges = exchanges
	for _, key := range all {
		config.AddHostKey(must(ssh.NewSignerFromSigner(key)))
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(name, listener.Addr())
	go func() {
		for {
			connection := must(listener.Accept())
			go func() {
				_, _, _, _ = ssh.NewServerConn(connection, config)
				connection.Close()
			}()
		}
	}()
}

func write(folder, name string, block *pem.Block) {
	if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
		log.Fatal(err)
	}
}

func main() {
	log.SetFlags(0)
	folder := os.Args[1]
	made := generate()
	for name, key := range made.all() {
		write(folder, name+".pkcs8", &pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
		write(folder, name+".openssh", must(ssh.MarshalPrivateKey(key, "a comment")))
		write(folder, name+".locked", must(ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(password))))
	}
	write(folder, "rsa.pem", &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(made.rsa)})
	for name, key := range made.ecdsa {
		write(folder, name+".pem", &pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(key))})
	}

	hosts := generate()
	var all []crypto.Signer
	for name, key := range hosts.all() {
		serve("key-"+name, nil, key)
		all = append(all, key)
	}
	serve("all", nil, all...)
	serve("rsa-and-ed25519", nil, hosts.rsa, hosts.ed25519)
	for _, exchange := range []string{
		ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521, ssh.KeyExchangeDH14SHA256, ssh.KeyExchangeDH16SHA512,
		ssh.InsecureKeyExchangeDH14SHA1,
	} {
		serve("exchange-"+exchange, []string{exchange}, hosts.ed25519)
	}
	fmt.Println()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
