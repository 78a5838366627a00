// The real kustomize as a library, for tests and benches that need many builds of one process.
//
//	kustomize-library    one build a line: {"files": {"path": "text"}, "dir": "."} in, {"yaml"} or {"error"} out
//
// With "seconds" the build is done again and again for so long, and the answer has the number of runs and the time of the
// fastest. Builds are those of the command line without flags, of files in memory.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

type request struct {
	Files   map[string]string `json:"files"`
	Dir     string            `json:"dir"`
	Seconds float64           `json:"seconds"`
}

type answer struct {
	Yaml        string `json:"yaml,omitempty"`
	Error       string `json:"error,omitempty"`
	Runs        int    `json:"runs,omitempty"`
	Nanoseconds int64  `json:"nanoseconds,omitempty"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for in.More() {
		var asked request
		if err := in.Decode(&asked); err != nil {
			fail(err)
		}
		given, err := do(asked)
		if err != nil {
			given = answer{Error: err.Error()}
		}
		if err := encoder.Encode(given); err != nil {
			fail(err)
		}
		// Whoever asks waits for the answer.
		if err := out.Flush(); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func do(asked request) (given answer, err error) {
	// kustomize ends some builds with a panic: a refusal like any other.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	fs := filesys.MakeFsInMemory()
	ownSchema := false
	for name, text := range asked.Files {
		if err := fs.WriteFile(path.Join("/", name), []byte(text)); err != nil {
			return answer{}, err
		}
		ownSchema = ownSchema || strings.Contains(text, "openapi:")
	}
	if ownSchema {
		// The schema is the process's: this build must not see the one of the last, nor the next build this one.
		openapi.ResetOpenAPI()
		defer openapi.ResetOpenAPI()
	}
	return measure(fs, path.Join("/", asked.Dir), asked.Seconds)
}

// measure builds a folder once, and then again for as long as it is asked to.
func measure(fs filesys.FileSystem, dir string, seconds float64) (answer, error) {
	yaml, err := build(fs, dir)
	if err != nil || seconds == 0 {
		return answer{Yaml: string(yaml)}, err
	}
	given := answer{}
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for given.Runs < 3 || time.Now().Before(until) {
		start := time.Now()
		if _, err := build(fs, dir); err != nil {
			return answer{}, err
		}
		took := time.Since(start).Nanoseconds()
		if given.Runs == 0 || took < given.Nanoseconds {
			given.Nanoseconds = took
		}
		given.Runs++
	}
	return given, nil
}

// build renders a folder as the command line does without flags.
func build(fs filesys.FileSystem, dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified
	rendered, err := krusty.MakeKustomizer(options).Run(fs, dir)
	if err != nil {
		return nil, err
	}
	return rendered.AsYaml()
}
