// Records the artifacts that Flux's source-watcher builds.
//
// The builder is an internal package, so this file runs in a checkout of github.com/fluxcd/source-watcher
// (recorded with the builder of 2.3, commit 041e6576, on Go 1.26):
//
//	mkdir -p CHECKOUT/internal/record && cp main.go CHECKOUT/internal/record/
//	cd CHECKOUT && go run ./internal/record CORPUS/cases.json > CORPUS/answers.jsonl
//
// A case has trees of files by alias and the copy operations of one artifact. A file is its content, or has a mode or
// the entries of an archive. Each answer has the files of the artifact, or the error.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fluxcd/pkg/artifact/config"
	"github.com/fluxcd/pkg/artifact/storage"

	swapi "github.com/fluxcd/source-watcher/api/v2/v1beta1"
	"github.com/fluxcd/source-watcher/v2/internal/builder"
)

type entry struct {
	Name       string `json:"name"`
	Content    string `json:"content"`
	Link       string `json:"link"`
	Hardlink   string `json:"hardlink"`
	Executable bool   `json:"executable"`
	Directory  bool   `json:"directory"`
	Device     bool   `json:"device"`
}

type file struct {
	Content    string  `json:"content"`
	Executable bool    `json:"executable"`
	Archive    []entry `json:"archive"`
}

func (f *file) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &f.Content)
	}
	type plain file
	return json.Unmarshal(data, (*plain)(f))
}

type testCase struct {
	Name    string                     `json:"name"`
	Sources map[string]map[string]file `json:"sources"`
	Copy    []swapi.CopyOperation      `json:"copy"`
}

type answer struct {
	Name       string            `json:"name"`
	Files      map[string]string `json:"files,omitempty"`
	Executable []string          `json:"executable,omitempty"`
	Error      string            `json:"error,omitempty"`
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func pack(entries []entry) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	writer := tar.NewWriter(zip)
	for _, one := range entries {
		header := &tar.Header{Name: one.Name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(one.Content))}
		switch {
		case one.Link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, one.Link
		case one.Hardlink != "":
			header.Typeflag, header.Linkname = tar.TypeLink, one.Hardlink
		case one.Directory:
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		case one.Device:
			header.Typeflag = tar.TypeChar
		case one.Executable:
			header.Mode = 0o755
		}
		check(writer.WriteHeader(header))
		must(writer.Write([]byte(one.Content)))
	}
	check(writer.Close())
	check(zip.Close())
	return out.Bytes()
}

func write(root, name string, one file) {
	path := filepath.Join(root, name)
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	content, mode := []byte(one.Content), os.FileMode(0o644)
	if one.Archive != nil {
		content = pack(one.Archive)
	}
	if one.Executable {
		mode = 0o755
	}
	check(os.WriteFile(path, content, mode))
}

func read(path string, into *answer) {
	reader := tar.NewReader(must(gzip.NewReader(must(os.Open(path)))))
	into.Files = map[string]string{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		into.Files[header.Name] = string(must(io.ReadAll(reader)))
		if header.Mode&0o111 != 0 {
			into.Executable = append(into.Executable, header.Name)
		}
	}
}

func run(one testCase) answer {
	work := must(builder.MkdirTempAbs("", "record-"))
	defer os.RemoveAll(work)
	sources := map[string]string{}
	for alias, files := range one.Sources {
		root := filepath.Join(work, "sources", alias)
		check(os.MkdirAll(root, 0o755))
		for name, content := range files {
			write(root, name, content)
		}
		sources[alias] = root
	}
	stored := filepath.Join(work, "stored")
	check(os.MkdirAll(stored, 0o755))
	store := must(storage.New(&config.Options{
		StoragePath: stored, StorageAddress: ":0", StorageAdvAddress: "localhost",
		ArtifactRetentionTTL: time.Hour, ArtifactRetentionRecords: 2, ArtifactDigestAlgo: "sha256",
	}))
	spec := &swapi.OutputArtifact{Name: "app", Copy: one.Copy}
	found := answer{Name: one.Name}
	made, err := builder.New(store).Build(context.Background(), spec, sources, "apps", filepath.Join(work, "staging"))
	if err != nil {
		found.Error = strings.ReplaceAll(err.Error(), work, "WORK")
		return found
	}
	if made.Revision != "latest@"+made.Digest {
		panic("the revision is not the digest: " + made.Revision)
	}
	read(store.LocalPath(*made), &found)
	return found
}

func main() {
	var cases []testCase
	check(json.Unmarshal(must(os.ReadFile(os.Args[1])), &cases))
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, one := range cases {
		check(out.Encode(run(one)))
	}
	fmt.Fprintln(os.Stderr, len(cases), "cases")
}
