// The digests of Flux's helm-controller, by its own code:
//
//	go run . digests < ../../corpus/helm-record/helm.jsonl > ../../corpus/helm-record/flux.jsonl
//
//	go run . specs < ../../corpus/helm-record/specs.jsonl > ../../corpus/helm-record/specs.answers.jsonl
//
// A line in of the first is what `tests/oracle/helm-record` writes: {"name", "ociDigest", "helm3": Secret, "helm4": Secret}. A line out is
// {"name", "helm3": snapshot, "helm4": snapshot, "values": digest}: what helm-controller notes of each of the two records in
// status.history, and its digest of the values alone. A line in of the second is the spec of a HelmRelease, a line out
// {"postRenderers": digest, "commonMetadata": digest, "releaseName": text} as the status and the release have them.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"

	"github.com/fluxcd/pkg/chartutil"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"

	v2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/helm-controller/internal/digest"
	"github.com/fluxcd/helm-controller/internal/postrender"
	"github.com/fluxcd/helm-controller/internal/release"
)

type secret struct {
	Data map[string][]byte `json:"data"`
}

type recorded struct {
	Name      string `json:"name"`
	OCIDigest string `json:"ociDigest"`
	Helm3     secret `json:"helm3"`
	Helm4     secret `json:"helm4"`
}

type noted struct {
	Name   string       `json:"name"`
	Helm3  *v2.Snapshot `json:"helm3"`
	Helm4  *v2.Snapshot `json:"helm4"`
	Values string       `json:"values"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := json.NewEncoder(os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "specs" {
		specs(in, out)
		return
	}
	for in.More() {
		var r recorded
		check(in.Decode(&r))
		three, four := decode(r.Helm3), decode(r.Helm4)
		check(out.Encode(noted{
			Name:   r.Name,
			Helm3:  snapshot(three, r.OCIDigest),
			Helm4:  snapshot(four, r.OCIDigest),
			Values: chartutil.DigestValues(digest.Canonical, four.Config).String(),
		}))
	}
}

func specs(in *json.Decoder, out *json.Encoder) {
	for in.More() {
		var object v2.HelmRelease
		object.Name, object.Namespace = "web", "apps"
		check(in.Decode(&object.Spec))
		answer := map[string]string{
			"postRenderers":  "",
			"commonMetadata": "",
			"releaseName":    release.ShortenName(object.GetReleaseName()),
		}
		if object.Spec.PostRenderers != nil {
			answer["postRenderers"] = postrender.Digest(digest.Canonical, object.Spec.PostRenderers).String()
		}
		if object.Spec.CommonMetadata != nil {
			answer["commonMetadata"] = postrender.CommonMetadataDigest(digest.Canonical, object.Spec.CommonMetadata).String()
		}
		check(out.Encode(answer))
	}
}

func check(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// decode reads a record as Helm's driver does.
func decode(s secret) *helmrelease.Release {
	packed, err := base64.StdEncoding.DecodeString(string(s.Data["release"]))
	check(err)
	unpacker, err := gzip.NewReader(bytes.NewReader(packed))
	check(err)
	text, err := io.ReadAll(unpacker)
	check(err)
	var r helmrelease.Release
	check(json.Unmarshal(text, &r))
	return &r
}

func snapshot(r *helmrelease.Release, ociDigest string) *v2.Snapshot {
	observed := release.ObserveRelease(r)
	observed.OCIDigest = ociDigest
	noted := release.ObservedToSnapshot(observed)
	noted.SetTestHooks(release.TestHooksFromRelease(r))
	return noted
}
