package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	"github.com/sigstore/cosign/v3/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v3/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v3/pkg/oci/remote"
	"github.com/sigstore/cosign/v3/pkg/oci/static"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekortiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	f_log "github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

// signed is how a signature without a key is made.
type signed struct {
	// Form is "simple" (cosign 2), "bundle" (cosign 3) or "bundle-v2" (cosign 3, a log that tells no time).
	Form string `json:"form"`
	// Issuer and Subject are the signer's: an address of mail or a URI.
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Kind is that of the signer's key; p256 when it is empty.
	Kind string `json:"kind"`
	// UserName makes the subject the name of a user.
	UserName bool `json:"userName"`
	// Digest is what the statement speaks of; the artifact's when it is empty.
	Digest string `json:"digest"`
	// Fault is what is wrong with it; nothing when it is empty.
	Fault string `json:"fault"`
}

// keylessSigner is a key of one signature and its certificate.
type keylessSigner struct {
	by          signature.Signer
	public      crypto.PublicKey
	certificate *x509.Certificate
}

// signKeyless puts a signature without a key beside an artifact. FOLDER is the Sigstore that vouches for it.
func signKeyless(ctx context.Context, reference, folder, text string) error {
	how := signed{}
	if err := json.Unmarshal([]byte(text), &how); err != nil {
		return err
	}
	by, err := readSigstore(folder)
	if err != nil {
		return err
	}
	if by, err = by.other(how.Fault); err != nil {
		return err
	}
	artifact, err := digestOf(reference)
	if err != nil {
		return err
	}
	if how.Digest == "" {
		how.Digest = artifact.DigestStr()
	}
	key, err := newKey(cmp.Or(how.Kind, "p256"))
	if err != nil {
		return err
	}
	signer := keylessSigner{public: key.Public()}
	if signer.by, err = signature.LoadSigner(key, crypto.SHA256); err != nil {
		return err
	}
	if signer.certificate, err = by.identify(how, key.Public()); err != nil {
		return err
	}
	if how.Form == "simple" {
		return by.signSimple(ctx, artifact, signer, how)
	}
	return by.signBundle(ctx, artifact, signer, how)
}

func (s *sigstore) signSimple(ctx context.Context, artifact name.Digest, signer keylessSigner, how signed) error {
	statement, err := payload.Cosign{Image: artifact.Context().Digest(how.Digest)}.MarshalJSON()
	if err != nil {
		return err
	}
	message := statement
	if how.Fault == "edited" {
		message = append([]byte(" "), statement...)
	}
	made, err := signer.by.SignMessage(bytes.NewReader(message))
	if err != nil {
		return err
	}
	about, logged := message, made
	if how.Fault == "other-entry" {
		about = []byte("something else")
		if logged, err = signer.by.SignMessage(bytes.NewReader(about)); err != nil {
			return err
		}
	}
	entry, err := s.log(ctx, "hashedrekord", about, logged, signer.certificate)
	if err != nil {
		return err
	}
	if how.Fault == "time" {
		*entry.IntegratedTime++
	}
	certificate, err := cryptoutils.MarshalCertificateToPEM(signer.certificate)
	if err != nil {
		return err
	}
	chain, err := cryptoutils.MarshalCertificatesToPEM([]*x509.Certificate{s.authority, s.root})
	if err != nil {
		return err
	}
	options := []static.Option{static.WithCertChain(certificate, chain), static.WithBundle(bundle.EntryToBundle(entry))}
	if how.Fault == "no-entry" {
		options = options[:1]
	}
	layer, err := static.NewSignature(statement, base64.StdEncoding.EncodeToString(made), options...)
	if err != nil {
		return err
	}
	entity, err := ociremote.SignedEntity(artifact)
	if err != nil {
		return err
	}
	if entity, err = mutate.AttachSignatureToEntity(entity, layer); err != nil {
		return err
	}
	return ociremote.WriteSignatures(artifact.Context(), entity)
}

func (s *sigstore) signBundle(ctx context.Context, artifact name.Digest, signer keylessSigner, how signed) error {
	statement, err := statementOf(how.Digest)
	if err != nil {
		return err
	}
	envelope, err := dsse.WrapSigner(signer.by, statementType).SignMessage(bytes.NewReader(statement))
	if err != nil {
		return err
	}
	written := statement
	if how.Fault == "edited" {
		written = append([]byte(" "), statement...)
	}
	logged := envelope
	if how.Fault == "other-entry" {
		other, err := statementOf("sha256:" + fmt.Sprintf("%064d", 1))
		if err != nil {
			return err
		}
		if logged, err = dsse.WrapSigner(signer.by, statementType).SignMessage(bytes.NewReader(other)); err != nil {
			return err
		}
	}
	signed, err := signatureOf(envelope)
	if err != nil {
		return err
	}
	var stamp []byte
	if how.Form == "bundle-v2" && how.Fault != "no-stamp" || how.Fault == "other-stamps" {
		if stamp, err = s.stamp(signed); err != nil {
			return err
		}
	}
	var entry *models.LogEntryAnon
	if how.Form == "bundle" && how.Fault != "no-entry" {
		if entry, err = s.log(ctx, "dsse", logged, nil, signer.certificate); err != nil {
			return err
		}
	}
	certificate, err := cryptoutils.MarshalCertificateToPEM(signer.certificate)
	if err != nil {
		return err
	}
	made, err := bundle.MakeNewBundle(signer.public, entry, written, envelope, certificate, stamp)
	if err != nil {
		return err
	}
	if how.Form == "bundle-v2" && how.Fault != "no-entry" {
		if made, err = s.logged(ctx, made, logged, signer); err != nil {
			return err
		}
	}
	if made, err = spoil(made, how.Fault); err != nil {
		return err
	}
	return ociremote.WriteAttestationNewBundleFormat(artifact, made, predicateType)
}

// spoil makes an entry of a bundle wrong that was right.
func spoil(text []byte, fault string) ([]byte, error) {
	made := &protobundle.Bundle{}
	if err := protojson.Unmarshal(text, made); err != nil {
		return nil, err
	}
	for _, entry := range made.VerificationMaterial.TlogEntries {
		switch fault {
		case "time":
			entry.IntegratedTime++
		case "no-promise":
			entry.InclusionPromise = nil
		case "no-proof":
			entry.InclusionProof = nil
		case "proof":
			entry.InclusionProof.Hashes[0][0] ^= 1
		}
	}
	return protojson.Marshal(made)
}

func statementOf(digest string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"digest": map[string]string{"sha256": digest[len("sha256:"):]}}},
		"predicateType": predicateType,
		"predicate":     map[string]any{},
	})
}

// envelope is a DSSE envelope as JSON has it.
type envelope struct {
	Payload    []byte `json:"payload"`
	Signatures []struct {
		Sig []byte `json:"sig"`
	} `json:"signatures"`
}

func signatureOf(text []byte) ([]byte, error) {
	read := envelope{}
	err := json.Unmarshal(text, &read)
	return read.Signatures[0].Sig, err
}

// logged puts the entry of a log that tells no time into a bundle.
func (s *sigstore) logged(ctx context.Context, text, about []byte, signer keylessSigner) ([]byte, error) {
	made := &protobundle.Bundle{}
	if err := protojson.Unmarshal(text, made); err != nil {
		return nil, err
	}
	read := envelope{}
	if err := json.Unmarshal(about, &read); err != nil {
		return nil, err
	}
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(statementType), statementType, len(read.Payload), read.Payload)
	hash := crypto.SHA256.New()
	hash.Write(message)
	entry := &rekortiles.Entry{Kind: "hashedrekord", ApiVersion: "0.0.2", Spec: &rekortiles.Spec{Spec: &rekortiles.Spec_HashedRekordV002{
		HashedRekordV002: &rekortiles.HashedRekordLogEntryV002{
			Data: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: hash.Sum(nil)},
			Signature: &rekortiles.Signature{Content: read.Signatures[0].Sig, Verifier: &rekortiles.Verifier{
				KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
				Verifier:   &rekortiles.Verifier_X509Certificate{X509Certificate: &protocommon.X509Certificate{RawBytes: signer.certificate.Raw}},
			}},
		}}}}
	body, err := protojson.Marshal(entry)
	if err != nil {
		return nil, err
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		return nil, err
	}
	id, err := logID(s.keys["rekor"].Public())
	if err != nil {
		return nil, err
	}
	proof, err := s.proveTile(ctx, body)
	if err != nil {
		return nil, err
	}
	made.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{{
		LogIndex: 1, LogId: &protocommon.LogId{KeyId: id}, KindVersion: &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"},
		InclusionProof: proof, CanonicalizedBody: body}}
	return protojson.Marshal(made)
}

func (s *sigstore) proveTile(ctx context.Context, body []byte) (*protorekor.InclusionProof, error) {
	hasher := rfc6962.DefaultHasher
	before := hasher.HashLeaf([]byte("an entry"))
	top := hasher.HashChildren(before, hasher.HashLeaf(body))
	by, err := signature.LoadSigner(s.keys["rekor"], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	signer, err := rekornote.NewNoteSigner(ctx, logHost, by)
	if err != nil {
		return nil, err
	}
	text := f_log.Checkpoint{Origin: logHost, Size: 2, Hash: top}.Marshal()
	checkpoint, err := note.Sign(&note.Note{Text: string(text)}, signer)
	return &protorekor.InclusionProof{LogIndex: 1, TreeSize: 2, RootHash: top, Hashes: [][]byte{before},
		Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)}}, err
}

// verifyKeyless asks cosign's library with the options that source-controller gives it without a key.
func verifyKeyless(ctx context.Context, reference, folder, text string) error {
	parsed, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		return err
	}
	wanted := []struct{ Issuer, Subject string }{}
	if err := json.Unmarshal([]byte(text), &wanted); err != nil {
		return err
	}
	trusted, err := os.ReadFile(filepath.Join(folder, "trusted_root.json"))
	if err != nil {
		return err
	}
	options := &cosign.CheckOpts{}
	for _, one := range wanted {
		options.Identities = append(options.Identities, cosign.Identity{IssuerRegExp: one.Issuer, SubjectRegExp: one.Subject})
	}
	if options.TrustedMaterial, err = root.NewTrustedRootFromJSON(trusted); err != nil {
		return err
	}
	return verifyWith(ctx, parsed, options)
}
