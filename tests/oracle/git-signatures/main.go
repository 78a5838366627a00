// Answers whether Flux finds the signatures of commits and tags valid.
//
//	go run . ../../corpus/git-signatures > ../../corpus/git-signatures/answers.jsonl
//
// Each line names an object, an entry of a Secret with public keys, and the key that Flux names or its error.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/fluxcd/pkg/git"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

type answer struct {
	Object string `json:"object"`
	Key    string `json:"key"`
	Signer string `json:"signer,omitempty"`
	Error  string `json:"error,omitempty"`
}

type signed interface {
	SignatureType() string
	VerifyPGP(...string) (string, error)
	VerifySSH(...string) (string, error)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func payload(of interface {
	EncodeWithoutSignature(plumbing.EncodedObject) error
}) []byte {
	encoded := &plumbing.MemoryObject{}
	if err := of.EncodeWithoutSignature(encoded); err != nil {
		panic(err)
	}
	return must(io.ReadAll(must(encoded.Reader())))
}

func decode(path string) signed {
	encoded := &plumbing.MemoryObject{}
	must(encoded.Write(must(os.ReadFile(path))))
	if strings.HasSuffix(path, ".commit") {
		encoded.SetType(plumbing.CommitObject)
		commit := &object.Commit{}
		if err := commit.Decode(encoded); err != nil {
			panic(err)
		}
		return &git.Commit{Signature: commit.PGPSignature, Encoded: payload(commit)}
	}
	encoded.SetType(plumbing.TagObject)
	tag := &object.Tag{}
	if err := tag.Decode(encoded); err != nil {
		panic(err)
	}
	return &git.Tag{Signature: tag.PGPSignature, Encoded: payload(tag)}
}

func files(directory string, ends ...string) (found []string) {
	for _, end := range ends {
		found = append(found, must(filepath.Glob(filepath.Join(directory, "*"+end)))...)
	}
	sort.Strings(found)
	return found
}

func main() {
	directory := os.Args[1]
	keys := files(directory, ".asc", ".sshpub")
	for _, path := range files(directory, ".commit", ".tag") {
		of := decode(path)
		for _, key := range keys {
			text := string(must(os.ReadFile(key)))
			isSSH := strings.HasSuffix(key, ".sshpub")
			var signer string
			var err error
			switch of.SignatureType() {
			case "openpgp":
				if isSSH {
					continue
				}
				signer, err = of.VerifyPGP(text)
			case "ssh":
				if !isSSH {
					continue
				}
				signer, err = of.VerifySSH(text)
			default:
				err = fmt.Errorf("unsupported signature type: %s", of.SignatureType())
			}
			found := answer{Object: filepath.Base(path), Key: filepath.Base(key), Signer: signer}
			if err != nil {
				found.Error = err.Error()
			}
			fmt.Println(string(must(json.Marshal(found))))
		}
	}
}
