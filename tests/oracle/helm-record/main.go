// Helm 3 and Helm 4 as libraries, as judges of release records:
//
//	go run . write < ../../corpus/helm-record/cases.json > ../../corpus/helm-record/helm.jsonl    the Secrets of releases
//	go run . read < secrets.jsonl > ../../corpus/helm-record/read.jsonl                          what is in Secrets
//
// The Secrets for the second are ours: `cargo run -p driftless-helm --example record_secrets < tests/corpus/helm-record/cases.json`.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"

	release3 "helm.sh/helm/v3/pkg/release"
	driver3 "helm.sh/helm/v3/pkg/storage/driver"
	release4 "helm.sh/helm/v4/pkg/release/v1"
	driver4 "helm.sh/helm/v4/pkg/storage/driver"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// recordCase is a release as its record has it, with the labels that the record keeps outside.
type recordCase struct {
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	OCIDigest string            `json:"ociDigest,omitempty"`
	Release   json.RawMessage   `json:"release"`
}

type recordAnswer struct {
	Name      string     `json:"name"`
	OCIDigest string     `json:"ociDigest,omitempty"`
	Helm3     *v1.Secret `json:"helm3"`
	Helm4     *v1.Secret `json:"helm4"`
	// Modified is what Helm 4 makes of the Secret when it writes it again.
	Modified *v1.Secret `json:"modified"`
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if len(os.Args) > 1 && os.Args[1] == "read" {
		readRecords(out)
		return
	}
	writeRecords(out)
}

func check(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// writeRecords lets both Helms put each case of a JSON list into a Secret.
func writeRecords(out *json.Encoder) {
	var cases []recordCase
	check(json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&cases))
	for _, c := range cases {
		answer := recordAnswer{Name: c.Name, OCIDigest: c.OCIDigest}

		var three release3.Release
		check(json.Unmarshal(c.Release, &three))
		three.Labels = c.Labels
		into := &memory{}
		check(driver3.NewSecrets(into).Create(key(three.Name, three.Version), &three))
		answer.Helm3 = into.secret

		var four release4.Release
		check(json.Unmarshal(c.Release, &four))
		four.Labels = c.Labels
		into = &memory{}
		secrets := driver4.NewSecrets(into)
		check(secrets.Create(key(four.Name, four.Version), &four))
		answer.Helm4 = into.secret
		check(secrets.Update(key(four.Name, four.Version), &four))
		answer.Modified = into.secret
		check(out.Encode(answer))
	}
}

// readRecords says what both Helms read in the Secrets that are given, one a line.
func readRecords(out *json.Encoder) {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for in.More() {
		var secret v1.Secret
		check(in.Decode(&secret))
		three, err := driver3.NewSecrets(&memory{secret: &secret}).Get(secret.Name)
		check(err)
		four, err := driver4.NewSecrets(&memory{secret: &secret}).Get(secret.Name)
		check(err)
		typed, ok := four.(*release4.Release)
		if !ok {
			os.Exit(1)
		}
		check(out.Encode(map[string]any{
			"name":    three.Name,
			"written": text(secret),
			"helm3":   map[string]any{"release": three, "labels": three.Labels},
			"helm4":   map[string]any{"release": typed, "labels": typed.Labels},
		}))
	}
}

func key(name string, version int) string {
	return "sh.helm.release.v1." + name + ".v" + json.Number(jsonOf(version)).String()
}

func jsonOf(value any) string {
	text, err := json.Marshal(value)
	check(err)
	return string(text)
}

// text unpacks a record.
func text(secret v1.Secret) json.RawMessage {
	packed, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	check(err)
	unpacker, err := gzip.NewReader(bytes.NewReader(packed))
	check(err)
	text, err := io.ReadAll(unpacker)
	check(err)
	return text
}

// memory holds one Secret.
type memory struct {
	corev1.SecretInterface
	secret *v1.Secret
}

func (m *memory) Get(context.Context, string, metav1.GetOptions) (*v1.Secret, error) {
	return m.secret, nil
}

func (m *memory) Create(_ context.Context, s *v1.Secret, _ metav1.CreateOptions) (*v1.Secret, error) {
	m.secret = s
	return s, nil
}

func (m *memory) Update(_ context.Context, s *v1.Secret, _ metav1.UpdateOptions) (*v1.Secret, error) {
	m.secret = s
	return s, nil
}
