package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/notaryproject/notation-core-go/signature/cose"
	"github.com/notaryproject/notation-core-go/signature/jws"
	"github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/registry"
	"github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	"github.com/opencontainers/go-digest"
	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
)

const payloadType = "application/vnd.cncf.notary.payload.v1+json"

// wish is how a signature is made; everything has a default.
type wish struct {
	// Format is jws or cose.
	Format string `json:"format"`
	// Scheme is notary.x509 or notary.x509.signingAuthority.
	Scheme string `json:"scheme"`
	// Age is how long ago it was made, a duration.
	Age string `json:"age"`
	// Lifetime is how long it is good for, a duration.
	Lifetime string `json:"lifetime"`
	// Digest is another one than the artifact's.
	Digest string `json:"digest"`
	// Attribute is one that must be understood.
	Attribute string `json:"attribute"`
}

func repository(reference string) (registry.Repository, string, error) {
	parsed, err := orasregistry.ParseReference(reference)
	if err != nil {
		return nil, "", err
	}
	found, err := remote.NewRepository(reference)
	if err != nil {
		return nil, "", err
	}
	found.PlainHTTP = true
	return registry.NewRepository(found), parsed.Reference, nil
}

func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return time.ParseDuration(text)
}

// signNotation signs an artifact with the key and the chain of a folder.
func signNotation(ctx context.Context, reference, folder, text string) error {
	var how wish
	if err := json.Unmarshal([]byte(text), &how); err != nil {
		return err
	}
	artifacts, tag, err := repository(reference)
	if err != nil {
		return err
	}
	artifact, err := artifacts.Resolve(ctx, tag)
	if err != nil {
		return err
	}
	request, err := request(folder, how)
	if err != nil {
		return err
	}
	signed := artifact
	if how.Digest != "" {
		signed.Digest = digest.Digest(how.Digest)
	}
	request.Payload.ContentType = payloadType
	request.Payload.Content, err = json.Marshal(map[string]any{"targetArtifact": signed})
	if err != nil {
		return err
	}
	mediaType := jws.MediaTypeEnvelope
	if how.Format == "cose" {
		mediaType = cose.MediaTypeEnvelope
	}
	envelope, err := signature.NewEnvelope(mediaType)
	if err != nil {
		return err
	}
	bytes, err := envelope.Sign(request)
	if err != nil {
		return err
	}
	_, _, err = artifacts.PushSignature(ctx, mediaType, bytes, artifact, nil)
	return err
}

func request(folder string, how wish) (*signature.SignRequest, error) {
	key, err := readKey(filepath.Join(folder, "key"))
	if err != nil {
		return nil, err
	}
	chain, err := readChain(filepath.Join(folder, "chain"))
	if err != nil {
		return nil, err
	}
	local, err := signature.NewLocalSigner(chain, key)
	if err != nil {
		return nil, err
	}
	age, err := duration(how.Age)
	if err != nil {
		return nil, err
	}
	lifetime, err := duration(how.Lifetime)
	if err != nil {
		return nil, err
	}
	made := &signature.SignRequest{
		Signer:        local,
		SigningTime:   time.Now().Add(-age),
		SigningScheme: signature.SigningSchemeX509,
	}
	if how.Scheme != "" {
		made.SigningScheme = signature.SigningScheme(how.Scheme)
	}
	if lifetime != 0 {
		made.Expiry = made.SigningTime.Add(lifetime)
	}
	if how.Attribute != "" {
		made.ExtendedSignedAttributes = []signature.Attribute{{Key: how.Attribute, Critical: true, Value: "x"}}
	}
	return made, nil
}

func readChain(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}

// store is every trust store, as source-controller has it: the certificates of one Secret.
type store []*x509.Certificate

func (s store) GetCertificates(context.Context, truststore.Type, string) ([]*x509.Certificate, error) {
	return s, nil
}

// verifyNotation asks notation's library as source-controller does, and says what that makes of the answer.
func verifyNotation(ctx context.Context, reference, policyFile, certificates string) error {
	text, err := os.ReadFile(policyFile)
	if err != nil {
		return err
	}
	var policy trustpolicy.Document
	if err := json.Unmarshal(text, &policy); err != nil {
		return err
	}
	trusted, err := readChain(certificates)
	if err != nil {
		return err
	}
	verify, err := verifier.New(&policy, store(trusted), nil)
	if err != nil {
		return err
	}
	artifacts, _, err := repository(reference)
	if err != nil {
		return err
	}
	options := notation.VerifyOptions{ArtifactReference: reference, MaxSignatureAttempts: 3}
	_, outcomes, err := notation.Verify(ctx, verify, artifacts, options)
	if err != nil {
		return err
	}
	told := "verified"
	if outcomes[0].VerificationLevel == trustpolicy.LevelSkip {
		told = "ignored"
	}
	for _, result := range outcomes[0].VerificationResults {
		if result.Error != nil && result.Type == trustpolicy.TypeAuthenticity {
			told = "ignored"
		}
	}
	fmt.Println(told)
	return nil
}
