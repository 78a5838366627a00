// Go's own text/template, as a judge of the engine:
//
//	go run . answer ../../corpus/gotmpl      reads cases.txt, writes answers.jsonl beside it
//	go run . bench TEMPLATE                  prints the nanoseconds of a thousand executions, the fastest of ten
//	go run . generate SEED COUNT             prints generated templates with their answers, one JSON object a line
//
// A case is {"template", "missingkey", "got" or "error"}; all of them are executed on the data of data.json, which is read
// with types: {"$int": "5"}, {"$int64": "5"}, {"$uint8": "5"}, {"$bytes": "text"}, {"$strings": [..]}, {"$nil": true}.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"
)

//go:embed data.json
var dataText []byte

type answer struct {
	Template   string  `json:"template"`
	MissingKey string  `json:"missingkey,omitempty"`
	Got        *string `json:"got,omitempty"`
	Error      string  `json:"error,omitempty"`
}

func main() {
	log.SetFlags(0)
	data := typed(decode(dataText))
	out := json.NewEncoder(os.Stdout)
	switch os.Args[1] {
	case "answer":
		text, err := os.ReadFile(filepath.Join(os.Args[2], "cases.txt"))
		check(err)
		file, err := os.Create(filepath.Join(os.Args[2], "answers.jsonl"))
		check(err)
		out = json.NewEncoder(file)
		out.SetEscapeHTML(false)
		// Cases are separated by lines of `===`; a case may begin with `missingkey=…`.
		for _, c := range strings.Split(strings.TrimSuffix(string(text), "\n===\n"), "\n===\n") {
			option := ""
			if head, rest, ok := strings.Cut(c, "\n"); ok && strings.HasPrefix(head, "missingkey=") {
				option, c = strings.TrimPrefix(head, "missingkey="), rest
			}
			check(out.Encode(run(c, option, data)))
		}
	case "generate":
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		count, err := strconv.Atoi(os.Args[3])
		check(err)
		out.SetEscapeHTML(false)
		g := newGenerator(seed)
		for n := 0; n < count; {
			a := run(g.template(), g.option(), data)
			if a.Got != nil && !utf8.ValidString(*a.Got) || strings.Contains(a.Error, "0x") {
				continue // JSON cannot hold it; an address
			}
			check(out.Encode(a))
			n++
		}
	case "bench":
		bench(os.Args[2])
	default:
		log.Fatalf("unknown command %s", os.Args[1])
	}
}

// bench executes a template on a list and a map; tests/bench/helm/templates.rs has the same data.
func bench(text string) {
	t, err := template.New("t0").Parse(text)
	check(err)
	list := []any{}
	for i := range 20 {
		list = append(list, i)
	}
	data := map[string]any{"list": list, "map": map[string]any{"a": "text", "b": "x"}}
	best := time.Duration(math.MaxInt64)
	for range 10 {
		start := time.Now()
		for range 1000 {
			var out bytes.Buffer
			check(t.Execute(&out, data))
		}
		best = min(best, time.Since(start))
	}
	fmt.Println(best.Nanoseconds())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func decode(text []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	check(d.Decode(&v))
	return v
}

// typed turns tagged objects into Go's types.
func typed(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "$int":
				n, err := strconv.ParseInt(inner.(string), 10, 64)
				check(err)
				return int(n)
			case "$int64":
				n, err := strconv.ParseInt(inner.(string), 10, 64)
				check(err)
				return n
			case "$uint8":
				n, err := strconv.ParseUint(inner.(string), 10, 8)
				check(err)
				return uint8(n)
			case "$bytes":
				return []byte(inner.(string))
			case "$strings":
				list := []string{}
				for _, s := range inner.([]any) {
					list = append(list, s.(string))
				}
				return list
			case "$nil":
				return nil
			}
			v[key] = typed(inner)
		}
	}
	return v
}

func run(text, option string, data any) answer {
	a := answer{Template: text, MissingKey: option}
	t := template.New("t")
	if option != "" {
		t.Option("missingkey=" + option)
	}
	t, err := t.Parse(text)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		a.Error = err.Error()
		return a
	}
	got := out.String()
	a.Got = &got
	return a
}
