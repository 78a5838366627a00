package main

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// chain is how a signer's certificates are made; everything has a default.
type chain struct {
	// Kind is the kind of all keys.
	Kind string `json:"kind"`
	// Organization is the signer's.
	Organization string `json:"organization"`
	// Intermediate is whether somebody stands between the signer and the root.
	Intermediate bool `json:"intermediate"`
	// Alone is a signer that vouches for itself.
	Alone bool `json:"alone"`
	// Expired is how long the signer's certificate has been over, a duration.
	Expired string `json:"expired"`
	// Revocation is a place that the signer's certificate names for its revocation.
	Revocation string `json:"revocation"`
}

// lifetime is how long certificates are good for, before and after now.
const lifetime = 10 * 365 * 24 * time.Hour

type issuer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// writeCertificates makes a signer: FOLDER/key, FOLDER/chain (the signer's certificate first) and FOLDER/root.
func writeCertificates(folder, text string) error {
	var how chain
	if err := json.Unmarshal([]byte(text), &how); err != nil {
		return err
	}
	expired, err := duration(how.Expired)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := writeKey(how.Kind, filepath.Join(folder, "key")); err != nil {
		return err
	}
	key, err := readKey(filepath.Join(folder, "key"))
	if err != nil {
		return err
	}
	var authorities []issuer
	if !how.Alone {
		if authorities, err = newAuthorities(how); err != nil {
			return err
		}
	}
	end := time.Now().Add(lifetime)
	if expired > 0 {
		end = time.Now().Add(-expired)
	}
	signer := template(2, how.Organization, end)
	signer.KeyUsage = x509.KeyUsageDigitalSignature
	signer.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	if how.Revocation != "" {
		signer.CRLDistributionPoints = []string{how.Revocation}
	}
	parent := issuer{signer, key}
	if len(authorities) > 0 {
		parent = authorities[0]
	}
	raw, err := x509.CreateCertificate(rand.Reader, signer, parent.certificate, key.Public(), parent.key)
	if err != nil {
		return err
	}
	blocks := [][]byte{raw}
	for _, authority := range authorities {
		blocks = append(blocks, authority.certificate.Raw)
	}
	if err := writePEM(filepath.Join(folder, "root"), "CERTIFICATE", blocks[len(blocks)-1]); err != nil {
		return err
	}
	return writePEM(filepath.Join(folder, "chain"), "CERTIFICATE", blocks...)
}

func template(serial int64, organization string, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject: pkix.Name{
			Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{organization}, CommonName: "signer, of code",
		},
		NotBefore:             end.Add(-2 * lifetime),
		NotAfter:              end,
		BasicConstraintsValid: true,
	}
}

// newAuthorities makes those who vouch for the signer, the root last.
func newAuthorities(how chain) ([]issuer, error) {
	names := []string{"root"}
	if how.Intermediate {
		names = append(names, "intermediate")
	}
	var made []issuer
	for at, name := range names {
		key, err := newKey(how.Kind)
		if err != nil {
			return nil, err
		}
		own := template(int64(10+at), name, time.Now().Add(lifetime))
		own.IsCA = true
		own.KeyUsage = x509.KeyUsageCertSign
		parent := issuer{own, key}
		if at > 0 {
			parent = made[0]
		}
		raw, err := x509.CreateCertificate(rand.Reader, own, parent.certificate, key.Public(), parent.key)
		if err != nil {
			return nil, err
		}
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			return nil, err
		}
		made = append([]issuer{{certificate, key}}, made...)
	}
	return made, nil
}
