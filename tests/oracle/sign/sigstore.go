package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/digitorus/timestamp"
	ct "github.com/google/certificate-transparency-go"
	"github.com/google/certificate-transparency-go/tls"
	"github.com/google/certificate-transparency-go/x509util"
	"github.com/sigstore/cosign/v3/pkg/cosign/bundle"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/pki"
	"github.com/sigstore/rekor/pkg/types"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1"
	_ "github.com/sigstore/rekor/pkg/types/hashedrekord/v0.0.1"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The URL of the transparency log, whose host signs its checkpoints.
const (
	logURL  = "https://rekor.example.com"
	logHost = "rekor.example.com"
)

// The keys of a Sigstore, each a file of its folder.
var sigstoreKeys = []string{"root", "authority", "ctlog", "rekor", "stamps"}

// sigstore is an authority, a certificate log, a transparency log and an authority of time stamps of one's own.
type sigstore struct {
	keys map[string]crypto.Signer
	// root vouches for the authority and for the stamps.
	root, authority, stamps *x509.Certificate
}

// writeSigstore makes one: FOLDER has its keys and certificates, and the trusted_root.json that leads to it.
func writeSigstore(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	made := &sigstore{keys: map[string]crypto.Signer{}}
	for _, name := range sigstoreKeys {
		file := filepath.Join(folder, name)
		if err := writeKey("p256", file); err != nil {
			return err
		}
		key, err := readKey(file)
		if err != nil {
			return err
		}
		made.keys[name] = key
	}
	if err := made.certify(); err != nil {
		return err
	}
	for name, certificate := range map[string]*x509.Certificate{"root": made.root, "authority": made.authority, "stamps": made.stamps} {
		if err := writePEM(filepath.Join(folder, name+".crt"), "CERTIFICATE", certificate.Raw); err != nil {
			return err
		}
	}
	text, err := made.trustedRoot()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "trusted_root.json"), text, 0o600)
}

// readSigstore reads what writeSigstore wrote.
func readSigstore(folder string) (*sigstore, error) {
	read := &sigstore{keys: map[string]crypto.Signer{}}
	for _, name := range sigstoreKeys {
		key, err := readKey(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		read.keys[name] = key
	}
	for name, to := range map[string]**x509.Certificate{"root": &read.root, "authority": &read.authority, "stamps": &read.stamps} {
		text, err := os.ReadFile(filepath.Join(folder, name+".crt"))
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		if *to, err = x509.ParseCertificate(block.Bytes); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// certify makes the certificates that are good for years.
func (s *sigstore) certify() (err error) {
	own := template(1, "root", time.Now().Add(lifetime))
	own.IsCA, own.KeyUsage = true, x509.KeyUsageCertSign
	if s.root, err = issue(own, own, s.keys["root"].Public(), s.keys["root"]); err != nil {
		return err
	}
	if s.authority, err = s.certifyAuthority(); err != nil {
		return err
	}
	s.stamps, err = s.certifyStamps()
	return err
}

func (s *sigstore) certifyAuthority() (*x509.Certificate, error) {
	own := template(2, "authority", time.Now().Add(lifetime))
	own.IsCA, own.KeyUsage = true, x509.KeyUsageCertSign
	own.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	return issue(own, s.root, s.keys["authority"].Public(), s.keys["root"])
}

func (s *sigstore) certifyStamps() (*x509.Certificate, error) {
	purpose, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return nil, err
	}
	own := template(3, "stamps", time.Now().Add(lifetime))
	own.KeyUsage = x509.KeyUsageDigitalSignature
	own.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: purpose}}
	return issue(own, s.root, s.keys["stamps"].Public(), s.keys["root"])
}

func issue(own, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, own, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// trustedRoot is what leads to this Sigstore, as sigstore-go writes it.
func (s *sigstore) trustedRoot() ([]byte, error) {
	start := time.Now().Add(-lifetime)
	logs := func(name, at string) (map[string]*root.TransparencyLog, error) {
		id, err := logID(s.keys[name].Public())
		log := &root.TransparencyLog{BaseURL: at, ID: id, ValidityPeriodStart: start, HashFunc: crypto.SHA256,
			PublicKey: s.keys[name].Public(), SignatureHashFunc: crypto.SHA256}
		return map[string]*root.TransparencyLog{hex.EncodeToString(id): log}, err
	}
	entries, err := logs("rekor", logURL)
	if err != nil {
		return nil, err
	}
	certificates, err := logs("ctlog", "")
	if err != nil {
		return nil, err
	}
	authority := &root.FulcioCertificateAuthority{Root: s.root, Intermediates: []*x509.Certificate{s.authority}, ValidityPeriodStart: start}
	stamps := &root.SigstoreTimestampingAuthority{Root: s.root, Leaf: s.stamps, ValidityPeriodStart: start}
	made, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, certificates,
		[]root.TimestampingAuthority{stamps}, entries)
	if err != nil {
		return nil, err
	}
	return made.MarshalJSON()
}

func logID(key crypto.PublicKey) ([]byte, error) {
	text, err := x509.MarshalPKIXPublicKey(key)
	id := sha256.Sum256(text)
	return id[:], err
}

// identify makes a certificate of ten minutes for a signer, as Fulcio does.
func (s *sigstore) identify(how signed, public crypto.PublicKey) (*x509.Certificate, error) {
	issuer, err := asn1.MarshalWithParams(how.Issuer, "utf8")
	if err != nil {
		return nil, err
	}
	start := time.Now().Add(-time.Minute)
	if how.Fault == "expired" {
		start = start.Add(-time.Hour)
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(start.UnixNano()),
		NotBefore:    start,
		NotAfter:     start.Add(10 * time.Minute),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte(how.Issuer)},
			{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer},
		},
	}
	if how.Fault == "purpose" {
		own.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	switch {
	case how.UserName:
		name, err := cryptoutils.MarshalOtherNameSAN(how.Subject, true)
		if err != nil {
			return nil, err
		}
		own.ExtraExtensions = append(own.ExtraExtensions, *name)
	case strings.Contains(how.Subject, "://"):
		at, err := url.Parse(how.Subject)
		if err != nil {
			return nil, err
		}
		own.URIs = []*url.URL{at}
	default:
		own.EmailAddresses = []string{how.Subject}
	}
	if how.Fault == "no-ctlog" {
		return issue(own, s.authority, public, s.keys["authority"])
	}
	// What the log promises is the certificate without the promise.
	before, err := issue(own, s.authority, public, s.keys["authority"])
	if err != nil {
		return nil, err
	}
	promise, err := s.promise(before)
	if err != nil {
		return nil, err
	}
	own.ExtraExtensions = append(own.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: promise})
	return issue(own, s.authority, public, s.keys["authority"])
}

// promise is the extension with the certificate log's promise.
func (s *sigstore) promise(before *x509.Certificate) ([]byte, error) {
	id, err := logID(s.keys["ctlog"].Public())
	if err != nil {
		return nil, err
	}
	now := uint64(time.Now().UnixMilli())
	timestamp := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: [32]byte(id)}, Timestamp: now}
	entry := ct.LogEntry{Leaf: ct.MerkleTreeLeaf{Version: ct.V1, LeafType: ct.TimestampedEntryLeafType, TimestampedEntry: &ct.TimestampedEntry{
		Timestamp: now, EntryType: ct.PrecertLogEntryType, PrecertEntry: &ct.PreCert{
			IssuerKeyHash: sha256.Sum256(s.authority.RawSubjectPublicKeyInfo), TBSCertificate: before.RawTBSCertificate},
	}}}
	message, err := ct.SerializeSCTSignatureInput(timestamp, entry)
	if err != nil {
		return nil, err
	}
	by := *s.keys["ctlog"].(*ecdsa.PrivateKey)
	made, err := tls.CreateSignature(by, tls.SHA256, message)
	if err != nil {
		return nil, err
	}
	timestamp.Signature = ct.DigitallySigned(made)
	list, err := x509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&timestamp})
	if err != nil {
		return nil, err
	}
	text, err := tls.Marshal(*list)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(text)
}

// log makes the entry of a signature with the log's promise and the proof of its place.
func (s *sigstore) log(ctx context.Context, kind string, about, signed []byte, by *x509.Certificate) (*models.LogEntryAnon, error) {
	text, err := cryptoutils.MarshalCertificateToPEM(by)
	if err != nil {
		return nil, err
	}
	what := types.ArtifactProperties{PublicKeyBytes: [][]byte{text}, PKIFormat: string(pki.X509), SignatureBytes: signed, ArtifactBytes: about}
	if kind == "hashedrekord" {
		hash := sha256.Sum256(about)
		what.ArtifactBytes, what.ArtifactHash = nil, hex.EncodeToString(hash[:])
	}
	proposed, err := types.NewProposedEntry(ctx, kind, "0.0.1", what)
	if err != nil {
		return nil, err
	}
	entry, err := types.CreateVersionedEntry(proposed)
	if err != nil {
		return nil, err
	}
	body, err := types.CanonicalizeEntry(ctx, entry)
	if err != nil {
		return nil, err
	}
	id, err := logID(s.keys["rekor"].Public())
	if err != nil {
		return nil, err
	}
	name, index, now := hex.EncodeToString(id), int64(1), time.Now().Unix()
	promise, err := s.promiseEntry(bundle.RekorPayload{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: now, LogIndex: index, LogID: name})
	if err != nil {
		return nil, err
	}
	proof, err := s.prove(ctx, body)
	return &models.LogEntryAnon{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: &now, LogIndex: &index, LogID: &name,
		Verification: &models.LogEntryAnonVerification{SignedEntryTimestamp: promise, InclusionProof: proof}}, err
}

func (s *sigstore) promiseEntry(entry bundle.RekorPayload) ([]byte, error) {
	text, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	if text, err = jsoncanonicalizer.Transform(text); err != nil {
		return nil, err
	}
	by, err := signature.LoadECDSASignerVerifier(s.keys["rekor"].(*ecdsa.PrivateKey), crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return by.SignMessage(bytes.NewReader(text))
}

// prove puts an entry behind another one into a log, and proves its place.
func (s *sigstore) prove(ctx context.Context, body []byte) (*models.InclusionProof, error) {
	hasher := rfc6962.DefaultHasher
	before := hasher.HashLeaf([]byte("an entry"))
	top := hasher.HashChildren(before, hasher.HashLeaf(body))
	by, err := signature.LoadECDSASignerVerifier(s.keys["rekor"].(*ecdsa.PrivateKey), crypto.SHA256)
	if err != nil {
		return nil, err
	}
	checkpoint, err := util.CreateAndSignCheckpoint(ctx, logHost, 7, 2, top, by)
	if err != nil {
		return nil, err
	}
	index, size, hash, note := int64(1), int64(2), hex.EncodeToString(top), string(checkpoint)
	return &models.InclusionProof{LogIndex: &index, TreeSize: &size, RootHash: &hash, Hashes: []string{hex.EncodeToString(before)}, Checkpoint: &note}, nil
}

// stamp is a time stamp of now for a signature.
func (s *sigstore) stamp(signed []byte) ([]byte, error) {
	asked, err := timestamp.CreateRequest(bytes.NewReader(signed), &timestamp.RequestOptions{Hash: crypto.SHA256})
	if err != nil {
		return nil, err
	}
	request, err := timestamp.ParseRequest(asked)
	if err != nil {
		return nil, err
	}
	answer := timestamp.Timestamp{HashAlgorithm: request.HashAlgorithm, HashedMessage: request.HashedMessage, Time: time.Now(),
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}, AddTSACertificate: true}
	return answer.CreateResponseWithOpts(s.stamps, s.keys["stamps"], crypto.SHA256)
}

// other is a Sigstore that is this one but for one key: whoever trusts this one must not believe it.
func (s *sigstore) other(fault string) (*sigstore, error) {
	name, found := strings.CutPrefix(fault, "other-")
	if _, known := s.keys[name]; !found || !known {
		return s, nil
	}
	key, err := newKey("p256")
	if err != nil {
		return nil, err
	}
	strange := &sigstore{maps.Clone(s.keys), s.root, s.authority, s.stamps}
	strange.keys[name] = key
	switch name {
	case "authority":
		strange.authority, err = strange.certifyAuthority()
	case "stamps":
		strange.stamps, err = strange.certifyStamps()
	}
	return strange, err
}
