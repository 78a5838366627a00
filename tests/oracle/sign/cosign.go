package main

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v3/pkg/oci"
	"github.com/sigstore/cosign/v3/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

const (
	statementType = "application/vnd.in-toto+json"
	predicateType = "https://sigstore.dev/cosign/sign/v1"
)

func digestOf(reference string) (name.Digest, error) {
	parsed, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		return name.Digest{}, err
	}
	return ociremote.ResolveDigest(parsed)
}

func signer(file string) (signature.Signer, crypto.Signer, error) {
	key, err := readKey(file)
	if err != nil {
		return nil, nil, err
	}
	loaded, err := signature.LoadSigner(key, crypto.SHA256)
	return loaded, key, err
}

// signSimple puts a signature of cosign 2 beside the artifact. It speaks of digest, which an honest signer takes from the artifact.
func signSimple(_ context.Context, reference, keyFile, digest string) error {
	artifact, err := digestOf(reference)
	if err != nil {
		return err
	}
	by, _, err := signer(keyFile)
	if err != nil {
		return err
	}
	statement, err := payload.Cosign{Image: artifact.Context().Digest(digest)}.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := by.SignMessage(bytes.NewReader(statement))
	if err != nil {
		return err
	}
	layer, err := static.NewSignature(statement, base64.StdEncoding.EncodeToString(signed))
	if err != nil {
		return err
	}
	entity, err := ociremote.SignedEntity(artifact)
	if err != nil {
		return err
	}
	entity, err = mutate.AttachSignatureToEntity(entity, layer)
	if err != nil {
		return err
	}
	return ociremote.WriteSignatures(artifact.Context(), entity)
}

// signBundle makes a bundle of cosign 3 that refers to the artifact, and speaks of digest.
func signBundle(ctx context.Context, reference, keyFile, digest string) error {
	artifact, err := digestOf(reference)
	if err != nil {
		return err
	}
	by, key, err := signer(keyFile)
	if err != nil {
		return err
	}
	statement, err := statementOf(digest)
	if err != nil {
		return err
	}
	envelope, err := dsse.WrapSigner(by, statementType).SignMessage(bytes.NewReader(statement))
	if err != nil {
		return err
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		return err
	}
	made, err := bundle.MakeNewBundle(key.Public(), nil, statement, envelope, public, nil)
	if err != nil {
		return err
	}
	return ociremote.WriteAttestationNewBundleFormat(artifact, made, predicateType)
}

// verifyCosign asks cosign's library with the options that source-controller gives it for a key.
func verifyCosign(ctx context.Context, reference, publicKey string) error {
	parsed, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(publicKey)
	if err != nil {
		return err
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return err
	}
	options := &cosign.CheckOpts{Offline: true, IgnoreTlog: true}
	if options.SigVerifier, err = signature.LoadVerifier(key, crypto.SHA256); err != nil {
		return err
	}
	return verifyWith(ctx, parsed, options)
}

// verifyWith looks for bundles, and without one for signatures of cosign 2.
func verifyWith(ctx context.Context, parsed name.Reference, options *cosign.CheckOpts) error {
	options.NewBundleFormat = true
	var found []oci.Signature
	bundles, _, err := cosign.GetBundles(ctx, parsed, options.RegistryClientOpts, name.Insecure)
	if err != nil || len(bundles) == 0 {
		options.NewBundleFormat = false
		found, _, err = cosign.VerifyImageSignatures(ctx, parsed, options)
	} else {
		found, _, err = cosign.VerifyImageAttestations(ctx, parsed, options, name.Insecure)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d verified\n", len(found))
	return nil
}
