// Helm 3 and Helm 4 as libraries, as judges of the engine:
//
//	go run . SEED COUNT > ../../corpus/helm/generated.jsonl    charts of a seed with both answers, one JSON object a line
//	go run . answer < cases.jsonl > answers.jsonl              the answers for charts that are given: {"name", "files", "values"}
//
// A chart is {"name", "files": {path: text}, "values": text}, an answer {"got": text} or {"error": message}. A chart is
// rendered several times; what Helm's random order of maps makes different from run to run is left out.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"os"
	"sort"
	"strconv"
)

// RUNS is how often a chart is rendered to see that the answer is always the same.
const RUNS = 6

type chartCase struct {
	Name   string            `json:"name"`
	Files  map[string]string `json:"files"`
	Values string            `json:"values,omitempty"`
	Helm3  *answer           `json:"helm3,omitempty"`
	Helm4  *answer           `json:"helm4,omitempty"`
}

type answer struct {
	Got   *string `json:"got,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if len(os.Args) > 1 && os.Args[1] == "answer" {
		in := json.NewDecoder(bufio.NewReader(os.Stdin))
		for in.More() {
			var c chartCase
			check(in.Decode(&c))
			judge(&c)
			check(out.Encode(c))
		}
		return
	}
	seed, err := strconv.ParseInt(os.Args[1], 10, 64)
	check(err)
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	for made := 0; made < count; seed++ {
		c := generate(seed)
		if judge(&c) {
			check(out.Encode(c))
			made++
		}
	}
}

func check(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// judge fills in the answers; whether each of them is the same in every run.
func judge(c *chartCase) bool {
	steady := true
	for _, of := range []struct {
		into   **answer
		render func(files []file, values string) (string, error)
	}{{&c.Helm3, render3}, {&c.Helm4, render4}} {
		for range RUNS {
			got, err := of.render(sorted(c.Files), c.Values)
			now := &answer{Got: &got}
			if err != nil {
				now = &answer{Error: err.Error()}
			}
			before := *of.into
			if before != nil && ((before.Got == nil) != (now.Got == nil) ||
				before.Got != nil && *before.Got != *now.Got) {
				steady = false
			}
			*of.into = now
		}
	}
	return steady
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
