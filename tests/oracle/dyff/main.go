// Answers the cases of tests/corpus/dyff with dyff, as `flux diff kustomization` of flux 2.9 calls it (its internal/build/diff.go
// and pkg/printers/dyff.go):
//
//	go run . ../../corpus/dyff
//
// For each case of cases.json, with the live object and the one that an apply would store, answers.jsonl has the printed text, as
// flux writes it into a pipe: 80 columns, no colours.
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"github.com/gonvenience/bunt"
	"github.com/gonvenience/ytbx"
	"github.com/homeport/dyff/pkg/dyff"
	"sigs.k8s.io/yaml"
)

type testCase struct {
	Name    string         `json:"name"`
	Live    map[string]any `json:"live"`
	Applied map[string]any `json:"applied"`
}

type answer struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func main() {
	bunt.SetColorSettings(bunt.OFF, bunt.OFF)
	dir := os.Args[1]
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	check(err)
	var cases []testCase
	check(json.Unmarshal(data, &cases))
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, one := range cases {
		check(encoder.Encode(answer{one.Name, compare(one)}))
	}
	check(os.WriteFile(filepath.Join(dir, "answers.jsonl"), out.Bytes(), 0o644))
}

func compare(one testCase) string {
	files, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(files)
	write := func(name string, object map[string]any) string {
		text, err := yaml.Marshal(object)
		check(err)
		file := filepath.Join(files, name)
		check(os.WriteFile(file, text, 0o600))
		return file
	}
	from, to, err := ytbx.LoadFiles(write("live.yaml", one.Live), write("merged.yaml", one.Applied))
	check(err)
	report, err := dyff.CompareInputFiles(from, to, dyff.IgnoreOrderChanges(false), dyff.KubernetesEntityDetection(true))
	check(err)
	var text bytes.Buffer
	writer := dyff.HumanReport{Report: report, OmitHeader: true}
	check(writer.WriteReport(&text))
	return text.String()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
