// Helm 3 and Helm 4 as libraries, for tests and benches that need many renders of one process.
//
//	helm-library    one chart a line: a request in, an answer out
//
// It does what `helm template rel CHART -n ns --include-crds --kube-version 1.34.0` does. With "runs" the chart is rendered so
// often, and the answer has all that differ, since Helm's random order of maps shows in some. With "seconds" it is rendered
// again and again for so long, and the answer has the number of runs and the time of the fastest.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

type request struct {
	// Which Helm: 3 or 4.
	Helm  int               `json:"helm"`
	Files map[string]string `json:"files"`
	// The texts of the files given by -f.
	Values []string `json:"values"`
	Set    []set    `json:"set"`
	// The flags of a render.
	Upgrade     bool     `json:"upgrade"`
	SkipSchema  bool     `json:"skip_schema"`
	KubeVersion string   `json:"kube_version"`
	APIVersions []string `json:"api_versions"`
	Runs        int      `json:"runs"`
	Seconds     float64  `json:"seconds"`
}

// A flag of the --set kind: set, set-string, set-json or set-literal, and its argument.
type set struct {
	Kind string `json:"kind"`
	Arg  string `json:"arg"`
}

type answer struct {
	// Those that differ, in the order that they were seen in.
	Got         []outcome `json:"got,omitempty"`
	Runs        int       `json:"runs,omitempty"`
	Nanoseconds int64     `json:"nanoseconds,omitempty"`
}

type outcome struct {
	Manifest string `json:"manifest"`
	Hooks    []hook `json:"hooks"`
	Notes    string `json:"notes"`
	Error    string `json:"error,omitempty"`
}

type hook struct {
	Path           string   `json:"path"`
	Name           string   `json:"name"`
	Kind           string   `json:"kind"`
	Manifest       string   `json:"manifest"`
	Events         []string `json:"events"`
	Weight         int      `json:"weight"`
	DeletePolicies []string `json:"delete_policies"`
	LogPolicies    []string `json:"log_policies"`
}

func main() {
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	folder, err := os.MkdirTemp("", "helm-library-")
	check(err)
	defer os.RemoveAll(folder)
	for in.More() {
		var asked request
		check(in.Decode(&asked))
		check(encoder.Encode(do(asked, folder)))
		// Whoever asks waits for the answer.
		check(out.Flush())
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// do renders once, or as often as it is asked to. The files of values are written into the folder.
func do(asked request, folder string) answer {
	paths := []string{}
	for at, text := range asked.Values {
		path := filepath.Join(folder, fmt.Sprintf("values-%d.yaml", at))
		check(os.WriteFile(path, []byte(text), 0o600))
		paths = append(paths, path)
	}
	files := sorted(asked.Files)
	render := render3
	if asked.Helm == 4 {
		render = render4
	}
	given := answer{}
	until := time.Now().Add(time.Duration(asked.Seconds * float64(time.Second)))
	for given.Runs == 0 || given.Runs < asked.Runs || asked.Seconds > 0 && (given.Runs < 3 || time.Now().Before(until)) {
		start := time.Now()
		got := safely(func() (outcome, error) { return render(asked, files, paths) })
		took := time.Since(start).Nanoseconds()
		if given.Runs == 0 || took < given.Nanoseconds {
			given.Nanoseconds = took
		}
		given.Runs++
		if asked.Seconds > 0 {
			if got.Error != "" {
				return answer{Got: []outcome{got}}
			}
			continue
		}
		if !slices.ContainsFunc(given.Got, func(seen outcome) bool { return same(seen, got) }) {
			given.Got = append(given.Got, got)
		}
	}
	return given
}

func same(a, b outcome) bool {
	x, err := json.Marshal(a)
	check(err)
	y, err := json.Marshal(b)
	check(err)
	return string(x) == string(y)
}

// safely makes an answer of an error, and of a panic: a refusal like any other.
func safely(render func() (outcome, error)) (got outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			got = outcome{Error: fmt.Sprintf("panic: %v", reason)}
		}
	}()
	got, err := render()
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return got
}

type file struct {
	name string
	data []byte
}

func sorted(files map[string]string) []file {
	var out []file
	for name, text := range files {
		out = append(out, file{name, []byte(text)})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out
}

// arguments are those of the flags of one kind.
func (r request) arguments(kind string) []string {
	var out []string
	for _, set := range r.Set {
		if set.Kind == kind {
			out = append(out, set.Arg)
		}
	}
	return out
}
